"""
Promise or confidence
=====================

Two ways of stating the same limit, and what each of them costs.

A *promise* holds on average over logs: the policies that are deployed have an expected loss of at
most 10 % taken together, and a single one may be somewhat above or below. With a *confidence* of
95 %, at least 95 of 100 logs lead to a policy at or below 10 %.
"""

# %%
# One world, in which the true risk of every policy is known, and 100 logs of 4,000 rows.

import matplotlib.pyplot as plt
import numpy as np

import tether

rng = np.random.default_rng(0)
safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
grid = np.linspace(-6, 6, 4001)


def risk(beta):
    """Return how often the tethered policy takes an action above 1.5."""
    weights = np.minimum(
        np.exp(optimized.log_prob(None, grid)), beta * np.exp(safe.log_prob(None, grid))
    )
    return weights[grid > 1.5].sum() / weights.sum()


deployed = {"promise=0.1": [], "alpha=0.1, confidence=0.95": []}
for _ in range(100):
    actions = safe.sample(4000, rng)
    log = tether.make_log(safe, optimized, None, actions, actions > 1.5)
    proposals = tether.make_proposals(safe, optimized, None, 4000, rng)
    for name, settings in zip(
        deployed, ({"promise": 0.1}, {"alpha": 0.1, "confidence": 0.95}), strict=True
    ):
        found = tether.calibrate(log, proposals, **settings)
        deployed[name].append(risk(max(found.beta, 1e-9)))

# %%
# Each small dot is one log, and each large one the mean of its group. With a promise, the mean is
# below 10 % while single logs are above it. With a confidence hardly any log is, and the policies
# stay closer to the safe one, whose own risk is 6.7 %.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for row, (risks, color) in enumerate(zip(deployed.values(), ("#1f5fa8", "#117733"), strict=True)):
    spread = row + rng.uniform(-0.25, 0.25, size=len(risks))
    panel.plot(100 * np.array(risks), spread, ".", color=color, alpha=0.5)
    panel.plot(100 * np.mean(risks), row, "o", color=color, markersize=11, markeredgecolor="white")
panel.axvline(10, linestyle="--", color="#888888")
panel.annotate("10 %", (10, 1.42), xytext=(4, 0), textcoords="offset points", color="#666666")
panel.set_yticks([0, 1], ["promise\n= 0.1", "alpha = 0.1,\nconfidence\n= 0.95"])
panel.set_ylim(-0.5, 1.6)
panel.set(
    xlabel="true risk of the deployed policy (%)", title="100 logs: on average, or nearly all"
)
plt.show()
