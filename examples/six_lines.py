"""From two policies and a record of past actions to new actions with a guarantee: six lines.

A price is set for each customer. The safe policy stays near the list price; the optimized policy
asks more of customers who are likely to pay more. A customer who is asked too much leaves; at most
one in ten may.
"""

import numpy as np

import tether

rng = np.random.default_rng(0)
budgets = rng.uniform(0.5, 2.0, size=2_000)  # the feature that is known of each customer


def leaves(customers, prices):
    """Whether a customer is asked too much: the loss."""
    return prices > 1.2 + 0.5 * customers


safe = tether.Gaussian(lambda customers: np.ones(len(customers)), 0.5)
optimized = tether.Gaussian(lambda customers: 0.6 + customers, 0.3)
customers, newcomers = budgets[:1_000], budgets[1_000:]
prices = safe.sample(customers, rng)  # the prices of last month, and what they cost:

log = tether.make_log(safe, optimized, customers, prices, leaves(customers, prices))
proposals = tether.make_proposals(safe, optimized, customers, 64, rng)
found = tether.calibrate(log, proposals, promise=0.1)
policy = tether.Tethered(safe, optimized, found)
new_prices, info = policy.sample_with_info(newcomers, rng)
print(found)

print(info)
for name, sampled in (
    ("safe", safe.sample(newcomers, rng)),
    ("optimized", optimized.sample(newcomers, rng)),
    ("tethered", new_prices),
):
    left, price = leaves(newcomers, sampled).mean(), sampled.mean()
    print(f"{name:<10} {left:6.1%} leave, mean price {price:.2f}")
