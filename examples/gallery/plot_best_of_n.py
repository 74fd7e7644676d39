"""
Best of N, and how much of it is safe
=====================================

A generator drafts 8 replies to every customer, and a score picks one of them. Always taking the best
score offends too many customers; the calibrated pick does not.

Nobody knows how likely the generator is to write a reply. It only has to be asked several times.
"""

# %%
# A draft is a number that says how frank it is. The score likes frank replies; customers differ in
# how much frankness they bear.

import matplotlib.pyplot as plt
import numpy as np

import tether

rng = np.random.default_rng(0)


def draft(customers, rng):
    """The safe policy: a function that draws one reply per customer."""
    return rng.beta(2 + customers[:, 0], 3)


def frankness(customers, drafts):
    """The score of every candidate."""
    return 8 * drafts


def offends(customers, drafts):
    """The loss, which the score does not know."""
    return drafts > 0.95 - 0.25 * customers[:, 1]


shortlist = tether.Shortlist(draft, frankness, size=8)
newcomers = rng.random((5_000, 2))


def outcome(policy):
    """Return the share of the newcomers who are offended, in percent, and the mean frankness."""
    sent = policy.sample(newcomers, rng)
    return 100 * offends(newcomers, sent).mean(), sent.mean()


# %%
# A promise is an average over logs, so there are eight logs of 2,000 customers, with several promises
# each.

promises = [0.06, 0.08, 0.10, 0.13]
reached = np.zeros((8, len(promises), 2))
for run in range(len(reached)):
    customers = rng.random((2000, 2))
    replies = draft(customers, rng)
    log = shortlist.make_log(customers, replies, offends(customers, replies), rng)
    for place, promise in enumerate(promises):
        found = tether.calibrate(log, promise=promise)
        reached[run, place] = outcome(shortlist.tethered(found))
one_draft, best_score = (outcome(shortlist.tethered(beta)) for beta in (0.0, np.inf))

# %%
# Each promise is a vertical line, and the mean of what was calibrated for it lies to its left.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for promise in promises:
    panel.axvline(100 * promise, color="#dddddd", linewidth=1)
panel.plot(*reached.mean(axis=0).T, "o-", color="#117733", label="calibrated for a promise")
panel.plot(*one_draft, "s", color="#1f5fa8", label="one draft")
panel.plot(*best_score, "^", color="#c8442f", markersize=9, label="always the best score")
panel.set(
    xlabel="customers who are offended (%)",
    ylabel="mean frankness",
    title="How much of best-of-8 each promise allows",
)
panel.legend(loc="lower right")
plt.show()
