"""Two systems that tell no probabilities: the ratio of their densities, estimated from draws.

This is the last resort, and approximate. A shortlist needs no probabilities of the safe policy, and
its promise does not rest on an estimate; use one if the safe policy can be drawn from several times
per context. Here two closed services reply to customers with a discount. The optimized one gives
larger discounts; a discount above 25 % is a loss, and at most 17 % of them may be.
"""

import numpy as np

import tether


def old_service(requests, rng):
    """Draw one discount per request, in percent; nobody knows the density."""
    return 10 + 4 * requests + rng.gamma(4.0, 2.0, size=len(requests))


def new_service(requests, rng):
    """Draw somewhat larger discounts."""
    return 10 + 4 * requests + rng.gamma(4.6, 2.0, size=len(requests))


def describe(requests, discounts):
    """Compute what the classifier sees: the request, and what was added to the usual discount."""
    added = np.maximum(discounts - 10 - 4 * requests, 1e-9)
    return np.column_stack([requests, added, np.log(added)])


rng = np.random.default_rng(0)
past, other, to_come = rng.normal(size=5_000), rng.normal(size=40_000), rng.normal(size=20_000)

# Requests other than those of the log: the estimate must not depend on what it is used on.
ratio = tether.estimate_ratio(old_service, new_service, other, rng, features=describe)
print(ratio)

discounts = old_service(past, rng)  # the log: what was done, and what it cost
log = tether.make_log(ratio.safe, ratio.optimized, past, discounts, discounts > 25)
proposals = tether.make_proposals(ratio.safe, ratio.optimized, past, 16, rng)
found = tether.calibrate(log, proposals, promise=0.17, ratio_error=ratio.error)
policy = tether.Tethered(ratio.safe, ratio.optimized, found)
print(found)

for name, system in (("old", ratio.safe), ("new", ratio.optimized), ("tethered", policy)):
    served = system.sample(to_come, rng)
    print(f"{name:<10} mean discount {served.mean():.1f} %, above 25 %: {(served > 25).mean():.1%}")
