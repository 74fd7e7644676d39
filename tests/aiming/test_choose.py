"""Choosing on training rows: more of the gain where losses can be learned, no harm elsewhere."""

import numpy as np
import pytest

import tether
from tether.aiming import Candidate, aimed_candidates

pytestmark = pytest.mark.usefixtures("one_thread")

SAFE = tether.Categorical.from_probabilities([0.8, 0.1, 0.1])
GREEDY = tether.Categorical.from_probabilities([0.1, 0.1, 0.8])
BETTER = tether.Categorical.from_probabilities([0.3, 0.68, 0.02])
TWO = {"plain": GREEDY, "better": BETTER}


def rows_of(n, seed=0, reward=lambda actions: 1.0 * (actions > 0)):
    rng = np.random.default_rng(seed)
    actions = SAFE.sample(n, rng)
    columns = {"actions": actions, "losses": 0.6 * (actions == 2), "rewards": reward(actions)}
    return {"safe": SAFE, "contexts": None, "alpha": 0.1, "rng": rng, **columns}


def test_the_better_candidate_is_chosen_by_its_reward_after_calibration():
    """Over several logs the estimate agrees with the true reward of what calibration allows."""
    estimated, true = [], []
    for seed in range(8):
        choice = tether.choose(TWO, **rows_of(300, seed))
        assert (choice.name, choice.policy, choice.family) == ("better", BETTER, "clip")
        estimated.append([each.reward for each in choice.estimates.values()])
        actions, contexts = SAFE.sample(300, np.random.default_rng(1000 + seed)), np.zeros(300)
        rewards = []
        for policy in TWO.values():
            log = tether.make_log(SAFE, policy, contexts, actions, 0.6 * (actions == 2))
            served = tether.Tethered(SAFE, policy, tether.calibrate(log, alpha=0.1))
            rewards.append(np.exp(served.log_prob_all(contexts[:1]))[0, 1:].sum())
        true.append(rewards)
    difference = np.mean(estimated, axis=0) - np.mean(true, axis=0)
    error = np.hypot(np.std(estimated, axis=0), np.std(true, axis=0)) / np.sqrt(8)
    assert (np.abs(difference) < 4 * error + 0.03).all()


def test_nothing_is_chosen_by_chance():
    assert tether.choose({"plain": GREEDY, "copy": GREEDY}, **rows_of(200)).name == "plain"
    noise = rows_of(200, reward=lambda actions: np.random.default_rng(1).normal(size=200))
    assert tether.choose(TWO, **noise).name == "plain"
    flat = rows_of(60, reward=lambda actions: np.full(60, 1 / 3))
    assert tether.choose(TWO, **flat).name == "plain"
    few = tether.choose(TWO, **rows_of(30))
    assert (few.name, few.estimates) == ("plain", {})


def test_families_shortlists_several_losses_and_other_loggers():
    candidates = {
        "plain": GREEDY,
        "mix": Candidate(BETTER, "mix"),
        "shortlist": tether.Shortlist(SAFE, BETTER, size=4),
    }
    choice = tether.choose(candidates, **rows_of(300))
    assert (choice.name, choice.family) == ("mix", "mix")
    leads = {name: each.lead for name, each in choice.estimates.items()}
    assert leads["mix"] > leads["shortlist"] > 0
    several = rows_of(300)
    several["losses"] = {"harm": several["losses"], "delay": 0.2 * (several["actions"] == 1)}
    assert tether.choose(TWO, **several | {"alpha": {"harm": 0.1, "delay": 0.15}}).name == "better"
    rng = np.random.default_rng(0)
    actions = np.concatenate([SAFE.sample(300, rng), BETTER.sample(600, rng)])
    columns = {"contexts": None, "actions": actions, "losses": np.zeros(900), "alpha": 0.5}
    columns |= {"rewards": actions + rng.normal(size=900), "safe": SAFE, "rng": rng}
    columns["logged_by"] = tether.Mixture([SAFE, BETTER], [1, 2])
    told = tether.choose({"plain": SAFE, "other": BETTER}, **columns)
    assert told.estimates["plain"].reward == pytest.approx(0.3, abs=0.15)
    assert told.estimates["other"].reward == pytest.approx(0.72, abs=0.15)


def test_a_policy_that_remembers_its_rows_gains_nothing_by_it():
    """It repeats what paid on the rows that it was built from; valued on these, it would lead."""
    rng, n = np.random.default_rng(3), 200
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    actions, rewards = rng.integers(2, size=n), rng.integers(2, size=n).astype(float)
    sizes = []

    def build(rows, rng):
        sizes.append(len(rows))
        paid = np.where(rows.rewards > 0, rows.actions, 1 - rows.actions)
        best = dict(zip(rows.contexts.tolist(), paid.tolist(), strict=True))

        def logits(x):
            wanted = np.array([best.get(each, 0) for each in x])
            return 4.0 * (wanted[:, None] == np.arange(2))

        return {"plain": safe, "memory": tether.Categorical.from_logits(logits, actions=[0, 1])}

    columns = {"contexts": np.arange(n), "actions": actions, "losses": np.zeros(n), "alpha": 0.2}
    choice = tether.choose(build, safe=safe, rewards=rewards, rng=rng, **columns)
    found = choice.estimates["memory"]
    assert abs(found.lead) < 4 * found.lead_error + 1e-9
    assert sizes == [200, *[160] * 5]


class Clinic:
    """Forty kinds of patients and eight treatments; harm and reward agree in part."""

    def __init__(self):
        rng = np.random.default_rng(8)
        self.x = rng.normal(size=(40, 4))
        to_reward, to_other, habit = rng.normal(size=(3, 4, 8)) / 2
        to_harm = 0.4 * to_reward + to_other
        self.harm = 1 / (1 + np.exp(3.4 - 2 * (self.x @ to_harm)))
        self.reward, actions = self.x @ to_reward, np.arange(8)
        self.safe, self.optimized = (
            tether.Categorical.from_logits(lambda x, w=weights: x @ w, actions=actions)
            for weights in (habit - to_harm, habit + 2 * to_reward)
        )

    def rows(self, n, rng):
        who = rng.integers(40, size=n)
        actions = self.safe.sample(self.x[who], rng)
        losses = (rng.random(n) < self.harm[who, actions]).astype(float)
        columns = {"contexts": self.x[who], "actions": actions, "losses": losses}
        return columns, self.reward[who, actions]

    def deployed(self, policy, alpha, n, seed):
        """Risk and reward of what calibration on fresh rows allows."""
        rows, _ = self.rows(n, np.random.default_rng(10_000 + seed))
        log = tether.make_log(self.safe, policy, *rows.values())
        found = tether.calibrate(log, alpha=alpha)
        chances = np.exp(tether.Tethered(self.safe, policy, found).log_prob_all(self.x))
        return [(chances * table).sum(axis=1).mean() for table in (self.harm, self.reward)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("n", "repeats", "least"), [(50, 6, -0.03), (200, 4, 0.0), (1000, 3, 0.2)])
def test_aiming_gains_where_there_are_rows_to_learn_from_and_does_no_harm_where_not(
    n, repeats, least
):
    """The guarantee stays that of calibration: the risk is at most alpha either way."""
    clinic, alpha, plain, chosen = Clinic(), 0.1, [], []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        rows, rewards = clinic.rows(n, rng)
        candidates = aimed_candidates(clinic.optimized, alpha)
        safe = {"safe": clinic.safe, "rewards": rewards, "alpha": alpha, "rng": rng}
        choice = tether.choose(candidates, **safe, **rows)
        plain.append(clinic.deployed(clinic.optimized, alpha, n, seed))
        chosen.append(clinic.deployed(choice.policy, alpha, n, seed))
    risk, reward = np.mean(chosen, axis=0)
    assert reward >= np.mean(plain, axis=0)[1] + least
    assert risk <= alpha + 0.01 + 3 * np.std(chosen, axis=0)[0] / np.sqrt(len(chosen))


@pytest.mark.parametrize(
    "change",
    [
        *({"rewards": [1.0]}, {"losses": [1.0]}, {"calibration_rows": 0}),
        *({"alpha": {"harm": 0.1}}, {"candidates": [GREEDY]}, {"candidates": {}}),
    ],
)
def test_wrong_arguments_are_refused(change):
    with pytest.raises((ValueError, TypeError), match=next(iter(change))):
        tether.choose(**({"candidates": TWO} | rows_of(80) | change))
    for wrong in (tether.Gaussian(0.0), Candidate(BETTER, "budgeted_clip(3)")):
        with pytest.raises((ValueError, TypeError), match="'b'"):
            tether.choose(TWO | {"b": wrong}, **rows_of(80))
