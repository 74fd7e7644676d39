"""From a sampler and a score to a served policy with a guarantee, and two rounds of a run.

A generator drafts replies to customers: here a number between 0 and 1 says how frank a draft is. It
can be sampled and states no probabilities. A score, learned elsewhere, prefers frank drafts. Some
customers are offended by frankness, and at most one reply in ten may offend. The generator makes 8
drafts of each reply, and the calibrated policy picks one of them.
"""

import numpy as np

import tether
from tether.runs import Controller

rng = np.random.default_rng(0)


def draft(customers, rng):
    """The safe policy: any function that draws one action per context."""
    return rng.beta(2 + customers[:, 0], 3)


def frankness(customers, drafts):
    """The score of every candidate, of shape (customers, candidates)."""
    return 8 * drafts


def offends(customers, drafts):
    """The loss, which the score does not know."""
    return drafts > 0.95 - 0.25 * customers[:, 1]


def arrive(count):
    """New customers, two features each."""
    return rng.random((count, 2))


customers = arrive(2_000)
drafts = draft(customers, rng)  # the replies of last month, and whether they offended:
losses = offends(customers, drafts)

shortlist = tether.Shortlist(draft, frankness, size=8)
log = shortlist.make_log(customers, drafts, losses, rng)  # 7 fresh drafts beside each reply
found = tether.calibrate(log, promise=0.1)
policy = shortlist.tethered(found)
newcomers = arrive(20_000)
replies = policy.sample(newcomers, rng)

print(found)
risks = {}
for name, sampled in (
    ("safe", draft(newcomers, rng)),
    ("picked by score", shortlist.tethered(np.inf).sample(newcomers, rng)),
    ("tethered", replies),
):
    risks[name] = offends(newcomers, sampled).mean()
    print(f"{name:<16} {risks[name]:6.1%} offended, mean frankness {sampled.mean():.2f}")


def features(customers, drafts):
    """What a model of offence is given of a reply: drafts may have one row per customer or more."""
    touchy = customers[:, 1].reshape(-1, *[1] * (drafts.ndim - 1))
    return np.stack([drafts**4, drafts**4 * touchy, drafts, np.ones_like(drafts)], axis=-1)


def learn(rows):
    """A bolder score that avoids predicted offence, from the training rows alone."""
    weights = np.linalg.lstsq(features(rows.contexts, rows.actions), rows.loss, rcond=None)[0]
    return lambda customers, drafts: 20 * drafts - 15 * (features(customers, drafts) @ weights)


# The same over rounds: the log is recorded, then each round has a score of its own. Candidates are
# stored with every action, so the rows of past rounds are weighted exactly.
with Controller(tether.Shortlist(draft, size=8), "sqlite://", alpha=0.1) as run:
    run.begin()
    recorded = run.record(customers, drafts, rng)
    run.observe(recorded.ids, losses, rewards=drafts)
    for score in (frankness, learn(run.training_rows())):
        round_ = run.begin(score)
        arrived = arrive(2_000)
        taken = round_.act(arrived, rng)
        harm = offends(arrived, taken.actions)
        run.observe(taken.ids, harm, rewards=taken.actions)
        print(f"{round_}: {harm.mean():.1%} offended, mean frankness {taken.actions.mean():.2f}")
