"""
How beta is found
=================

From 1,000 actions of the safe policy to the largest beta whose calibrated risk is at most alpha.

An action above 1.5 is harmful. The safe policy does harm in 6.7 % of the cases, and the optimized
one would in 26.6 %. At most 10 % are tolerated.
"""

# %%
# A log of the safe policy, and fresh draws for the largest weight.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import tether

rng = np.random.default_rng(0)
safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
actions = safe.sample(1000, rng)
log = tether.make_log(safe, optimized, None, actions, actions > 1.5)
proposals = tether.make_proposals(safe, optimized, None, 1000, rng)

# %%
# The calibration, at several alphas. Each is a frozen result with a curve.

alphas = [0.08, 0.10, 0.15, 0.20]
found = {alpha: tether.calibrate(log, proposals, alpha=alpha) for alpha in alphas}
print(found[0.10])

# %%
# What is deployed, and what it really does: the world is simulated, so the risk is an integral.

grid = np.linspace(-5, 6, 4001)
width = grid[1] - grid[0]
log_safe, log_optimized = norm.logpdf(grid, 0, 1), norm.logpdf(grid, 1, 0.8)


def deployed(log_beta):
    """Return the density of the tethered policy, and its true risk."""
    kernel = np.exp(np.minimum(log_optimized - max(log_beta, -30.0), log_safe))
    tethered = kernel / (kernel.sum() * width)
    return tethered, tethered[grid > 1.5].sum() * width


figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
panel.plot(grid, np.exp(log_safe), color="#1f5fa8", label="safe")
panel.plot(grid, np.exp(log_optimized), color="#c8442f", label="optimized")
for alpha, each in found.items():
    label = "tethered" if alpha == max(alphas) else None
    density = deployed(each.log_beta)[0]
    panel.plot(grid, density, color="#117733", alpha=0.3 + 2.5 * alpha, label=label)
panel.axvspan(1.5, 4, color="#c8442f", alpha=0.08, label="harmful")
panel.set(xlim=(-3, 4), xlabel="action", ylabel="density", title="What is deployed at four alphas")
panel.legend(loc="upper left", fontsize=9)
plt.show()

# %%
# The promise is an average over logs: on one log the risk is above alpha, on another below.

risks = np.zeros((60, len(alphas)))
for each in risks:
    actions = safe.sample(1000, rng)
    log = tether.make_log(safe, optimized, None, actions, actions > 1.5)
    each[:] = [
        deployed(tether.calibrate(log, proposals, alpha=alpha).log_beta)[1] for alpha in alphas
    ]

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
panel.plot([0.06, 0.22], [0.06, 0.22], ":", color="#888888", label="risk = alpha")
panel.plot(alphas, risks.T, color="#117733", alpha=0.15)
panel.plot(alphas, risks.mean(axis=0), "o-", color="#117733", label="mean of 60 logs")
panel.set(xlabel="alpha", ylabel="true risk of what is deployed", title="60 logs, and their mean")
panel.legend(loc="upper left", fontsize=9)
plt.show()
