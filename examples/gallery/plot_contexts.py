"""
One normalizing constant per context
====================================

What happens if contexts are left out: the same log, calibrated with and without them.

For half of the visitors the two policies agree. For the others the optimized policy prefers a
harmful action that the safe policy takes rarely. A calibration that does not know about the two
kinds of visitors deploys many times alpha, with any number of rows.
"""

# %%
# The world, and the exact risk of a policy in it.

import matplotlib.pyplot as plt
import numpy as np

import tether

rng = np.random.default_rng(0)
safe = tether.Categorical.from_probabilities([[0.5, 0.5], [0.98, 0.02]])
optimized = tether.Categorical.from_probabilities([[0.5, 0.5], [0.001, 0.999]])
alpha = 0.05


def risk(policy):
    """Half of the visitors are of the second kind, and harmed by action 1."""
    return 0.5 * np.exp(policy.log_prob(np.array([1]), np.array([1])))[0]


# %%
# Many logs of several sizes.

sizes, repeats = [100, 300, 1000, 3000], 60
risks = {"with contexts": [], "without (wrong)": []}
for rows in sizes:
    means = np.zeros(2)
    for _ in range(repeats):
        kinds = rng.integers(2, size=rows)
        actions = safe.sample(kinds, rng)
        harmed = ((kinds == 1) & (actions == 1)).astype(float)
        log = tether.make_log(safe, optimized, kinds, actions, harmed)
        blind = tether.Log(harmed, log.log_safe, log.log_optimized)
        right = tether.Tethered(safe, optimized, tether.calibrate(log, alpha=alpha))
        wrong = tether.Tethered(safe, optimized, tether.calibrate(blind, alpha=alpha).beta)
        means += np.array([risk(right), risk(wrong)]) / repeats
    for name, mean in zip(risks, means, strict=True):
        risks[name].append(mean)

# %%
# The mean deployed risk.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), color in zip(risks.items(), ("#117733", "#c8442f"), strict=True):
    panel.semilogx(sizes, values, "o-", color=color, label=name)
panel.axhline(alpha, linestyle="--", color="#888888", label="alpha")
panel.set(
    xlabel="rows of the log",
    ylabel="mean deployed risk",
    title="More rows do not repair a missing context",
)
panel.legend()
plt.show()
