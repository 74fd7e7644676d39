"""
A release of four new systems
=============================

How the share of users grows when the new system is better, slightly worse, worse, or always harmful.

The old system gets a complaint from 1 user in 100, and 2 in 100 are promised. Nobody knows what the
new systems do: their shares follow from their own losses.
"""

# %%
# The functions behind `tether.Release` need only counts: rows, and the sum of their losses.

from functools import cache

import matplotlib.pyplot as plt
import numpy as np

from tether.release import ArmCounts, Guardrail, ramp_share

rng = np.random.default_rng(0)
guardrails = {"complaint": Guardrail(promise=0.02)}
old_risk, users, steps, runs = 0.01, 1000, 6, 200


@cache
def share_after(rows, complaints):
    """Return the next share of a new system with these losses."""
    old = {"complaint": ArmCounts(2000, 20.0)}
    new = {"complaint": ArmCounts(rows, float(complaints))}
    return ramp_share(guardrails, old=old, new=new).share


def releases(new_risk):
    """Return the shares of many releases, one row each."""
    shares = np.zeros((runs, steps))
    for run in range(runs):
        rows = complaints = 0
        for step in range(steps):
            shares[run, step] = share_after(rows, complaints)
            rows = int(rng.binomial(users, shares[run, step]))
            complaints = int(rng.binomial(rows, new_risk))
    return shares


# %%
# The mean share over releases, and the complaints about what is served, with two standard errors.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
systems = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}
colors = ["#117733", "#1f5fa8", "#b07a12", "#c8442f"]
for (name, risk), color in zip(systems.items(), colors, strict=True):
    shares = releases(risk)
    mean, error = shares.mean(axis=0), shares.std(axis=0) / np.sqrt(runs)
    left.plot(range(1, steps + 1), mean, "o-", color=color, label=f"{name} ({risk:g})")
    served, spread = mean * risk + (1 - mean) * old_risk, 2 * error * abs(risk - old_risk)
    right.errorbar(range(1, steps + 1), served, spread, fmt="o-", color=color, capsize=3)
left.set(
    xlabel="step",
    ylabel="mean share of the new system",
    title="Each grows as far as its losses allow",
)
left.legend(fontsize=9)
right.axhline(0.02, linestyle="--", color="#888888")
right.annotate("promise", (1, 0.02), xytext=(0, 4), textcoords="offset points", color="#888888")
right.set(
    xlabel="step",
    ylabel="mean risk of what is served",
    title="And what is served keeps the promise",
)
right.set_ylim(0, 0.025)
plt.show()
