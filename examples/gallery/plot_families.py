"""
Clip, mix and budgeted clip
===========================

Three ways between a safe and an optimized policy, at three betas each.

Clip cuts the optimized policy where it exceeds beta times the safe one. Mix follows the optimized
policy in a share of the cases. Budgeted clip is clip with a limit on the number of proposals, after
which the safe policy acts.
"""

# %%
# Two policies over a line, on a grid of actions so that every density is exact.

import matplotlib.pyplot as plt
import numpy as np

import tether

grid = np.linspace(-4, 4, 801)
width = grid[1] - grid[0]


def density(mean, scale):
    """Return the log-probabilities of the cells of the grid."""
    log = -(((grid - mean) / scale) ** 2) / 2
    return log - np.logaddexp.reduce(log)


safe, optimized = density(0.0, 1.0), density(1.5, 0.7)

# %%
# A family turns both and beta into one density. The normalizing constant is a sum here.

betas = [0.3, 1.0, 4.0]


def draw(family):
    """Draw what a family makes of the two policies at three betas."""
    _, panel = plt.subplots(figsize=(6, 4), layout="constrained")
    panel.fill_between(grid, np.exp(safe) / width, color="#1f5fa8", alpha=0.15, label="safe")
    panel.fill_between(
        grid, np.exp(optimized) / width, color="#c8442f", alpha=0.15, label="optimized"
    )
    for beta, style in zip(betas, (":", "--", "-"), strict=True):
        kernel = np.minimum(optimized, safe + np.log(beta))
        log_psi = np.logaddexp.reduce(kernel)
        log = family.log_density(safe, optimized, np.log(beta), log_psi)
        panel.plot(grid, np.exp(log) / width, style, color="#117733", label=f"beta = {beta:g}")
    panel.set(title=family.name, xlabel="action", ylabel="density")
    panel.legend(loc="upper left", fontsize=9)
    plt.show()


# %%
# Clip follows the optimized policy where the two are close, and cuts it where it is far above.

draw(tether.Clip())

# %%
# Mix has the hump of the safe policy and the hump of the optimized one at once.

draw(tether.Mix())

# %%
# With at most four proposals per action, clip falls back on the safe policy now and then.

draw(tether.BudgetedClip(4))
