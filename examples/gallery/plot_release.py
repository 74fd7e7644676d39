"""
A release of four new systems
=============================

How the share of users grows when the new system is better, slightly worse, worse, or always harmful.

The old system gets a complaint from 1 user in 100, and at most 2 in 100 are promised. Nobody knows
what the new systems do: their shares follow from their own losses, and one that is shown to be too
bad is stopped.
"""

# %%
# The promise is an average over releases, so there are several of each.

import matplotlib.pyplot as plt
import numpy as np

from tether.runs import Release

rng = np.random.default_rng(0)
old_risk, users, steps, runs = 0.01, 1000, 6, 8


def release(new_risk):
    """Return the share of every step of one release."""
    old = {"complaint": rng.random(2000) < old_risk}
    shares = []
    with Release("sqlite://", {"complaint": 0.02}, old=old) as run:
        for step in range(steps):
            shares.append(run.share)
            keys = [f"{step}-{user}" for user in range(users)]
            new = np.array(run.assign(keys)) == "new"
            risk = np.where(new, new_risk, old_risk)
            run.observe(keys, {"complaint": rng.random(users) < risk})
            run.advance()
    return shares


# %%
# The mean share over releases.

systems = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}
colors = ["#117733", "#1f5fa8", "#b07a12", "#c8442f"]
_, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, risk), color in zip(systems.items(), colors, strict=True):
    shares = np.array([release(risk) for _ in range(runs)])
    label = f"{name} ({risk:g})"
    axes.plot(range(1, steps + 1), shares.mean(axis=0), "o-", color=color, label=label)
axes.set(xlabel="step", ylabel="mean share of the new system", title="As far as its losses allow")
axes.legend(fontsize=9)
plt.show()
