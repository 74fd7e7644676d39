"""
A release of four new systems
=============================

How the share of users grows when the new system is better, slightly worse, worse, or always harmful.

The old system gets a complaint from 1 user in 100, and at most 2 in 100 are promised. Nobody knows
what the new systems do: their shares follow from their own losses.
"""

# %%
# The functions behind `tether.Release` need only counts: rows, and the sum of their losses.

from functools import cache

import matplotlib.pyplot as plt
import numpy as np

from tether.release import ArmCounts, Guardrail, ramp_share

rng = np.random.default_rng(0)
guardrails = {"complaint": Guardrail(promise=0.02)}
old_risk, users, steps, runs = 0.01, 1000, 6, 400


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
# The mean share over releases, and the complaints about what is served. Bars are two standard errors.

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 7.5), sharex=True, layout="constrained")
systems = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}
colors = ["#117733", "#1f5fa8", "#b07a12", "#c8442f"]
numbers = np.arange(1, steps + 1)
for (name, risk), color in zip(systems.items(), colors, strict=True):
    shares = releases(risk)
    served = shares * risk + (1 - shares) * old_risk
    label = f"{name} ({risk:g})"
    for panel, values in ((above, shares), (below, served)):
        errors = 2 * values.std(axis=0, ddof=1) / np.sqrt(runs)
        panel.errorbar(
            numbers, values.mean(axis=0), errors, fmt="o-", color=color, capsize=2, label=label
        )
above.set(ylabel="mean share of the new system", title="Each grows as far as its losses allow")
above.legend(fontsize=9)
below.axhline(0.02, linestyle="--", color="#888888")
below.annotate("promise", (1, 0.02), xytext=(0, 4), textcoords="offset points", color="#666666")
below.set(
    xlabel="step",
    ylabel="mean risk of what is served",
    title="And what is served stays within the promise",
    ylim=(0, 0.025),
)
plt.show()
