"""
A release of four new systems
=============================

How the share of users grows when the new system is better, slightly worse, worse, or always harmful.

The old system gets a complaint from 1 user in 100, and at most 2 in 100 are promised. Nobody knows
what the new systems do: their shares follow from their own losses.
"""

# %%
# The functions behind `tether.Release` need only counts: rows, and the sum of their losses. The
# promise is an average over releases, so there are many of each, every one with a log of its own.

from functools import cache

import matplotlib.pyplot as plt
import numpy as np

from tether.release import ArmCounts, Guardrail, ramp_share

rng = np.random.default_rng(0)
guardrails = {"complaint": Guardrail(promise=0.02)}
old_risk, old_rows, users, steps, runs = 0.01, 2000, 1000, 6, 400


@cache
def share_after(old_complaints, rows, complaints):
    """Return the next share of a new system with these losses."""
    old = {"complaint": ArmCounts(old_rows, float(old_complaints))}
    new = {"complaint": ArmCounts(rows, float(complaints))}
    return ramp_share(guardrails, old=old, new=new).share


def releases(new_risk):
    """Return the shares of many releases, one row each."""
    shares = np.zeros((runs, steps))
    for run in range(runs):
        old_complaints = int(rng.binomial(old_rows, old_risk))
        rows = complaints = 0
        for step in range(steps):
            shares[run, step] = share_after(old_complaints, rows, complaints)
            rows = int(rng.binomial(users, shares[run, step]))
            complaints = int(rng.binomial(rows, new_risk))
    return shares


# %%
# The mean share over releases, with two standard errors. The share of a single release goes up and
# down with its losses.

systems = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}
colors = ["#117733", "#1f5fa8", "#b07a12", "#c8442f"]
shares = {name: releases(risk) for name, risk in systems.items()}


def draw_means(axes, values, color, label=None):
    """Draw the mean of many releases at each step, with two standard errors."""
    error = 2 * values.std(axis=0, ddof=1) / np.sqrt(runs)
    mean = values.mean(axis=0)
    axes.errorbar(range(1, steps + 1), mean, error, fmt="o-", color=color, label=label)


_, above = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, risk), color in zip(systems.items(), colors, strict=True):
    draw_means(above, shares[name], color, f"{name} ({risk:g})")
above.set(
    xlabel="step",
    ylabel="mean share of the new system",
    title="Each grows as far as its losses allow",
)
above.legend(fontsize=9)
plt.show()

# %%
# The complaints about what is served, by the old and the new system together.

_, below = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, risk), color in zip(systems.items(), colors, strict=True):
    draw_means(below, shares[name] * risk + (1 - shares[name]) * old_risk, color)
below.axhline(0.02, linestyle="--", color="#888888")
below.annotate("promise", (1, 0.02), xytext=(0, 4), textcoords="offset points", color="#666666")
below.set(
    xlabel="step",
    ylabel="mean risk of what is served",
    title="And what is served stays within the promise",
)
below.set_ylim(0, 0.025)
plt.show()
