"""
Aim: more of the gain at the same risk
======================================

A model that predicts harm, however roughly, tells where the optimized policy should not go. Aiming
lowers the probability of actions with a large predicted loss, before anything is calibrated.

The guarantee does not rest on the model: the aimed policy is calibrated like any other.
"""

# %%
# Eight actions. What brings a reward is partly what does harm, and the safe policy avoids harm.

import matplotlib.pyplot as plt
import numpy as np

import tether
from tether.aiming import fit_loss

rng = np.random.default_rng(8)
to_reward, to_other, habit = rng.normal(size=(3, 4, 8)) / 2
to_harm = 0.8 * to_reward + 0.8 * to_other
people = rng.normal(size=(2_000, 4))
harm = 1 / (1 + np.exp(3 - 2 * people @ to_harm))  # the probability of harm of each action
reward = people @ to_reward
safe = tether.Categorical.from_logits(lambda x: x @ habit - x @ to_harm, actions=np.arange(8))
optimized = tether.Categorical.from_logits(
    lambda x: x @ habit + x @ to_reward, actions=np.arange(8)
)
alpha = 0.1


def outcome(policy):
    """Return the true risk, in percent, and the true reward of a policy."""
    chances = np.exp(policy.log_prob_all(people))
    return [100 * (chances * harm).sum(1).mean(), (chances * reward).sum(1).mean()]


def log_of(count):
    """Return people, the actions of the safe policy, and harm."""
    rows = rng.integers(len(people), size=count)
    actions = safe.sample(people[rows], rng)
    return people[rows], actions, rng.random(count) < harm[rows, actions]


# %%
# The model of harm is fitted on training rows, which are not used again. Ten calibrations of both
# policies on 1,000 other rows.

contexts, actions, losses = log_of(1_000)
model = fit_loss(contexts, actions, losses.astype(float), rng=rng, policies=(safe, optimized))
aimed = tether.aim(optimized, model, contexts, alpha).policy
policies = {"optimized": optimized, "aimed": aimed}
served = {name: [] for name in policies}
for _ in range(10):
    contexts, actions, losses = log_of(1_000)
    for name, policy in policies.items():
        log = tether.make_log(safe, policy, contexts, actions, losses)
        found = tether.calibrate(log, alpha=alpha)
        served[name].append(outcome(tether.Tethered(safe, policy, found)))

# %%
# The lines are all tethered policies between the safe one and each of the two. Small dots are the
# calibrations, large ones their means.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
betas = np.exp(np.linspace(-3, 6, 20))
for (name, policy), color in zip(policies.items(), ("#c8442f", "#117733"), strict=True):
    path = np.transpose([outcome(tether.Tethered(safe, policy, beta)) for beta in [0.0, *betas]])
    panel.plot(*path, color=color, label=f"towards the {name} policy")
    panel.plot(*np.transpose(served[name]), ".", color=color, alpha=0.5)
    panel.plot(*np.mean(served[name], axis=0), "o", color=color, markersize=10)
panel.plot(*outcome(safe), "s", color="#333333", label="safe policy")
panel.axvline(100 * alpha, linestyle="--", color="#888888", label="alpha")
panel.set(xlabel="risk (%)", ylabel="reward", title="The same risk buys more reward")
panel.legend(loc="lower right")
plt.show()
