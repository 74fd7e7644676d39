"""
A policy that learns, round after round
=======================================

Every round a bolder policy is proposed, calibrated on all rows that were recorded so far, and used
as far as it may be pulled away from the last one (``against="last"``). Rows of earlier rounds stay
useful, because it is known which policy produced them.

The best dose is unknown. Each round the optimized policy moves towards doses with more reward; doses
above 2 do harm.
"""

# %%
# A promise is an average over runs, so there are 16 of them, with their records in memory. Round
# 0 records what the safe policy does.

import matplotlib.pyplot as plt
import numpy as np

import tether
from tether.runs import Controller

rng = np.random.default_rng(0)
safe, promise, rows, runs, rounds = tether.Gaussian(0.0, 1.0), 0.1, 400, 16, 6


def observe(run, policy=None):
    """Act, and tell the run what happened; return the share of harm and the mean reward."""
    taken = run.begin(policy).act(rows, rng)
    harm, reward = taken.actions > 2, taken.actions
    run.observe(taken.ids, harm.astype(float), rewards=reward)
    return harm.mean(), reward.mean()


outcomes = np.zeros((runs, rounds, 2))
for number in range(runs):
    with Controller(safe, "sqlite://", promise=promise, against="last") as run:
        outcomes[number, 0] = observe(run)
        for place in range(1, rounds):
            outcomes[number, place] = observe(run, tether.Gaussian(0.3 * place, 0.9))
        history = run.history()
print(history)  # of the last run

# %%
# Without a tether, the last policies would do harm far too often. Small dots are single runs.

places = np.arange(rounds)
alone = [np.mean(rng.normal(0.3 * each, 0.9 if each else 1.0, 100_000) > 2) for each in places]
harm, reward = np.moveaxis(outcomes, 2, 0)
figure, (above, below) = plt.subplots(2, figsize=(6, 5), sharex=True, layout="constrained")
above.plot(places, 100 * np.array(alone), "^-", color="#c8442f", label="optimized alone")
above.plot(places, 100 * harm.mean(axis=0), "o-", color="#117733", label="tethered")
above.plot(places, 100 * harm.T, ".", color="#117733", alpha=0.3)
above.axhline(100 * promise, linestyle="--", color="#888888", label="promise")
above.set(ylabel="harm (%)", title="Bolder every round, within the same promise")
above.legend()
below.plot(places, reward.mean(axis=0), "o-", color="#117733")
below.set(xlabel="round", ylabel="mean reward")
plt.show()
