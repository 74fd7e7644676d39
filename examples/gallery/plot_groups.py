"""
One threshold, or one per group
===============================

A promise on average may hide a topic for which it does not hold. With groups, each topic gets a
threshold and a promise of its own.

The score of a claim is right about chemistry and too optimistic about history.
"""

# %%
# Answers of five scored claims each, from three topics.

import matplotlib.pyplot as plt
import numpy as np

import tether

rng = np.random.default_rng(0)
power = {"chemistry": 0.7, "law": 1.0, "history": 1.8}
topics = np.array(list(power))


def answers(count):
    """Return the topic of each answer, and the scores and labels of its five claims."""
    topic = rng.choice(topics, size=count)
    scores = rng.beta(3, 1, size=(count, 5))
    chance = scores ** np.array([power[each] for each in topic])[:, None]
    return topic, scores, rng.random((count, 5)) < chance


def false_share(kept, labels, topic):
    """Return the mean share of false claims among those that an answer keeps, by topic."""
    kept = kept.reshape(labels.shape)
    shares = (kept & ~labels).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
    return [100 * shares[topic == each].mean() for each in topics]


# %%
# A promise is an average over calibrations, so there are 30, each on 1,500 answers, and each with
# 5,000 new answers to filter.

shares = np.zeros((30, 2, len(topics)))
for run in range(len(shares)):
    topic, scores, labels = answers(1_500)
    claims = tether.Claims(scores.ravel(), labels.ravel(), np.arange(0, scores.size + 1, 5))
    together = tether.gcrc(claims, promise=0.15)
    apart = tether.gcrc(claims, promise=0.15, groups=topic)
    topic, scores, labels = answers(5_000)
    by_one = tether.filter_claims(together, scores.ravel())
    by_topic = tether.filter_claims(apart, scores.ravel(), groups=np.repeat(topic, 5))
    shares[run] = [false_share(kept, labels, topic) for kept in (by_one, by_topic)]
print(apart)

# %%
# The mean share of false claims in new answers, for each topic.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for shift, name, height, color in zip(
    (-0.2, 0.2),
    ("one threshold", "one per topic"),
    shares.mean(axis=0),
    ("#c8442f", "#117733"),
    strict=True,
):
    panel.bar(np.arange(3) + shift, height, width=0.38, color=color, label=name)
panel.axhline(15, linestyle="--", color="#888888", label="promise")
panel.set_xticks(range(3), topics)
panel.set(ylabel="false claims in an answer (%)", title="A promise that holds for every topic")
panel.legend(loc="upper left")
plt.show()
