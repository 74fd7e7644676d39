"""From two policies and a record of what was done to actions that may be taken: six lines.

A price is set for each customer. The safe policy keeps to the list price; the optimized one asks
more where it believes that the customer will pay. A customer who is asked too much leaves, and at
most one in ten may.
"""

import numpy as np

import tether

rng = np.random.default_rng(0)
means = rng.uniform(0.5, 2.0, size=2_000)  # what is known of each customer


def leaves(customers, prices):
    """Whether a customer is asked too much: the loss."""
    return prices > 1.2 + 0.5 * customers


safe = tether.Gaussian(lambda customers: np.ones(len(customers)), 0.5)
optimized = tether.Gaussian(lambda customers: 0.6 + customers, 0.3)
customers, newcomers = means[:1_000], means[1_000:]
prices = safe.sample(customers, rng)  # what was done last month, and what it cost:

log = tether.make_log(safe, optimized, customers, prices, leaves(customers, prices))
proposals = tether.make_proposals(safe, optimized, customers, 64, rng)
found = tether.calibrate(log, proposals, alpha=0.1)
policy = tether.Tethered(safe, optimized, found)
new_prices, info = policy.sample_with_info(newcomers, rng)
print(found)

print(info)
for name, asked in (
    ("safe", safe.sample(newcomers, rng)),
    ("optimized", optimized.sample(newcomers, rng)),
    ("tethered", new_prices),
):
    print(f"{name:<10} {leaves(newcomers, asked).mean():6.1%} leave, mean price {asked.mean():.2f}")
