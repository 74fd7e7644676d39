"""Choosing on training rows: the best candidate with many rows, the plain one with few."""

import numpy as np
import pytest

import tether
from tests.scale import scaled
from tether.aiming import Candidate, aimed_candidates

SAFE = tether.Categorical.from_probabilities([0.8, 0.1, 0.1])
GREEDY = tether.Categorical.from_probabilities([0.1, 0.1, 0.8])
BETTER = tether.Categorical.from_probabilities([0.3, 0.68, 0.02])


def rows_of(n, seed=0, reward=lambda actions: 1.0 * (actions > 0)):
    rng = np.random.default_rng(seed)
    actions = SAFE.sample(n, rng)
    return {
        "safe": SAFE,
        "contexts": None,
        "actions": actions,
        "losses": 0.6 * (actions == 2),
        "rewards": reward(actions),
        "alpha": 0.1,
        "rng": rng,
    }


def test_the_better_candidate_is_chosen_and_said_so():
    choice = tether.choose({"plain": GREEDY, "better": BETTER}, **rows_of(400))
    assert choice.name == "better"
    assert choice.policy is BETTER
    assert choice.family == "clip"
    assert list(choice.estimates) == ["plain", "better"]
    text = str(choice)
    assert "chosen: better, by 400 training rows" in text
    assert "lead over plain" in text


@pytest.mark.slow
def test_the_estimate_is_the_reward_after_calibration():
    """Over many logs the estimate agrees with the true reward of what calibration allows."""
    estimated, true = [], []
    repeats = scaled(10)
    for seed in range(repeats):
        columns = rows_of(300, seed)
        choice = tether.choose({"plain": GREEDY, "better": BETTER}, **columns)
        estimated.append([each.reward for each in choice.estimates.values()])
        rng = np.random.default_rng(1000 + seed)
        actions = SAFE.sample(300, rng)
        rewards = []
        for policy in (GREEDY, BETTER):
            contexts = np.zeros(300)
            log = tether.make_log(SAFE, policy, contexts, actions, 0.6 * (actions == 2))
            served = tether.Tethered(SAFE, policy, tether.calibrate(log, alpha=0.1))
            rewards.append(np.exp(served.log_prob_all(contexts[:1]))[0, 1:].sum())
        true.append(rewards)
    difference = np.mean(estimated, axis=0) - np.mean(true, axis=0)
    error = np.hypot(np.std(estimated, axis=0), np.std(true, axis=0)) / np.sqrt(repeats)
    # Fewer distinct rows are calibrated on than will be, which costs the plain one a little.
    assert (np.abs(difference) < 4 * error + 0.03).all()


def test_equal_candidates_leave_the_plain_one():
    choice = tether.choose({"plain": GREEDY, "copy": GREEDY}, **rows_of(200))
    assert choice.name == "plain"
    assert choice.estimates["copy"].lead == 0
    assert "no lead is above 2.5 standard errors" in str(choice)


def test_a_lead_within_noise_leaves_the_plain_one():
    columns = rows_of(200, reward=lambda actions: np.random.default_rng(1).normal(size=200))
    choice = tether.choose({"plain": GREEDY, "better": BETTER}, **columns, standard_errors=4)
    assert choice.name == "plain"


@pytest.mark.parametrize("seed", range(6))
def test_where_all_rewards_are_equal_rounding_errors_choose_nothing(seed):
    rows = rows_of(60, seed, reward=lambda actions: np.full(len(actions), 1 / 3))
    assert tether.choose({"plain": GREEDY, "better": BETTER}, **rows).name == "plain"


def test_few_rows_leave_the_plain_one():
    choice = tether.choose({"plain": GREEDY, "better": BETTER}, **rows_of(30))
    assert choice.name == "plain"
    assert str(choice) == "plain: 30 training rows are too few to choose by"
    assert str(tether.choose({"a": GREEDY}, **rows_of(90))) == "a: there is no other candidate"


def test_families_and_shortlists_are_candidates():
    shortlist = tether.Shortlist(SAFE, BETTER, size=4)
    candidates = {"plain": GREEDY, "mix": Candidate(BETTER, "mix"), "shortlist": shortlist}
    choice = tether.choose(candidates, **rows_of(300))
    assert choice.name == "mix"
    assert choice.family == "mix"
    leads = {name: each.lead for name, each in choice.estimates.items()}
    assert leads["mix"] > leads["shortlist"] > 0


def test_nothing_is_valued_on_rows_that_it_was_built_on():
    """Every call of the function but the first, for the final policy, lacks a fifth of the rows."""
    columns, sizes = rows_of(101), []

    def build(rows, rng):
        sizes.append(len(rows))
        assert isinstance(rng, np.random.Generator)
        return {"plain": GREEDY, "better": BETTER}

    tether.choose(build, **columns)
    assert sizes == [101, 80, 81, 81, 81, 81]


def test_a_policy_that_remembers_its_rows_gains_nothing_by_it():
    """A candidate that repeats what paid on the rows it saw has no lead on others."""
    rng = np.random.default_rng(3)
    n = 200
    contexts = np.arange(n)
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    actions = rng.integers(2, size=n)
    rewards = rng.integers(2, size=n).astype(float)

    def build(rows, rng):
        paid = np.where(rows.rewards > 0, rows.actions, 1 - rows.actions)
        best = dict(zip(rows.contexts.tolist(), paid.tolist(), strict=True))

        def logits(x):
            wanted = np.array([best.get(each, 0) for each in x])
            return 4.0 * (wanted[:, None] == np.arange(2))

        return {"plain": safe, "memory": tether.Categorical.from_logits(logits, actions=[0, 1])}

    found = [
        tether.choose(
            build,
            safe=safe,
            contexts=contexts,
            actions=actions,
            losses=np.zeros(n),
            rewards=rewards,
            alpha=0.2,
            rng=np.random.default_rng(seed),
        ).estimates["memory"]
        for seed in range(2)
    ]
    assert all(abs(each.lead) < 4 * each.lead_error + 1e-9 for each in found)


def test_an_aimed_policy_is_chosen_where_losses_can_be_learned():
    rng = np.random.default_rng(0)
    n = 290  # too few for trees, which take longer
    safe = tether.Categorical.from_probabilities([0.7, 0.3])
    optimized = tether.Categorical.from_probabilities([0.1, 0.9])
    contexts = rng.normal(size=n)
    actions = safe.sample(contexts, rng)
    losses = (rng.random(n) < 1 / (1 + np.exp(1 - 5 * contexts))) * (actions == 1)
    choice = tether.choose(
        aimed_candidates(optimized, 0.15, temperatures=(1.0,)),
        safe=safe,
        contexts=contexts,
        actions=actions,
        losses=losses.astype(float),
        rewards=1.0 * (actions == 1),
        alpha=0.15,
        rng=rng,
    )
    assert choice.name.startswith("aimed")
    chances = np.exp(choice.policy.log_prob_all(np.array([-2.0, 2.0])))
    assert chances[0, 1] > chances[1, 1] + 0.3


def test_a_candidate_that_only_all_rows_give_rise_to_is_not_chosen():
    columns = rows_of(200)
    build = lambda rows, rng: {"plain": GREEDY} | ({"b": BETTER} if len(rows) == 200 else {})  # noqa: E731
    choice = tether.choose(build, **columns)
    assert choice.name == "plain"
    assert list(choice.estimates) == ["plain"]


def test_a_candidate_without_which_some_rows_are_built_is_plain_on_them():
    calls = []

    def build(rows, rng):
        calls.append(0)
        known = len(calls) in (1, 2, 3)  # the final one, and two folds of five
        return {"plain": GREEDY, "better": BETTER} if known else {"plain": GREEDY}

    columns = rows_of(400)
    some = tether.choose(build, **columns).estimates["better"].lead
    all_rows = tether.choose({"plain": GREEDY, "better": BETTER}, **rows_of(400))
    assert 0.2 < some / all_rows.estimates["better"].lead < 0.6


def test_actions_of_other_policies():
    """The estimates agree with calibrations on logs of the same policies."""
    logged_by = tether.Mixture([SAFE, BETTER], [1, 1])
    candidates = {"plain": GREEDY, "better": BETTER}
    estimated, true = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        actions = logged_by.sample(800, rng)
        columns = {"contexts": None, "actions": actions, "losses": 0.6 * (actions == 2)}
        columns |= {"rewards": 1.0 * (actions > 0), "alpha": 0.1, "safe": SAFE, "rng": rng}
        choice = tether.choose(candidates, logged_by=logged_by, **columns)
        assert choice.name == "better"
        estimated.append([each.reward for each in choice.estimates.values()])
        rewards = []
        for policy in candidates.values():
            contexts, actions = np.zeros(800), logged_by.sample(800, rng)
            losses = 0.6 * (actions == 2)
            log = tether.make_log(SAFE, policy, contexts, actions, losses, logged_by=logged_by)
            served = tether.Tethered(SAFE, policy, tether.calibrate(log, alpha=0.1))
            rewards.append(np.exp(served.log_prob_all(contexts[:1]))[0, 1:].sum())
        true.append(rewards)
    assert np.mean(estimated, axis=0) == pytest.approx(np.mean(true, axis=0), abs=0.08)


def test_infinitely_many_actions_through_shortlists():
    rng = np.random.default_rng(0)
    safe = tether.Gaussian(0.0)
    actions = safe.sample(280, rng)
    choice = tether.choose(
        aimed_candidates(tether.Gaussian(1.0), 0.1, multiples=(2.0,), temperatures=(1.0,)),
        safe=safe,
        contexts=None,
        actions=actions,
        losses=(rng.random(280) < 1 / (1 + np.exp(12 - 8 * actions))).astype(float),
        rewards=actions,
        alpha=0.1,
        rng=rng,
    )
    assert isinstance(choice.policy, tether.Shortlist)
    assert next(iter(choice.estimates)) == "shortlist of 4"
    assert choice.estimates["aimed × 2, shortlist of 16"].lead > 0


def test_several_losses():
    columns = rows_of(300)
    columns["losses"] = {"harm": columns["losses"], "delay": 0.2 * (columns["actions"] == 1)}
    columns["alpha"] = {"harm": 0.1, "delay": 0.15}
    choice = tether.choose({"plain": GREEDY, "better": BETTER}, **columns)
    assert choice.name == "better"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [1.0]}, "rewards"),
        ({"losses": [1.0]}, "losses"),
        ({"calibration_rows": 0}, "calibration_rows"),
        ({"standard_errors": -1}, "standard_errors"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        tether.choose({"plain": GREEDY, "better": BETTER}, **{**rows_of(80), **change})


def test_candidates_must_be_finite_policies_by_name():
    with pytest.raises(TypeError, match="candidates must be a mapping"):
        tether.choose([GREEDY], **rows_of(80))
    with pytest.raises(TypeError, match="at least one policy"):
        tether.choose({}, **rows_of(80))
    with pytest.raises(TypeError, match="'better' has infinitely many actions"):
        tether.choose({"plain": GREEDY, "better": tether.Gaussian(0.0)}, **rows_of(80))
    with pytest.raises(ValueError, match="use clip or mix"):
        tether.choose({"plain": GREEDY, "b": Candidate(BETTER, "budgeted_clip(3)")}, **rows_of(80))


def test_rows_of_a_mixture_are_weighted_by_it():
    """With rows of two policies, expected rewards are right only if this is told."""
    rng = np.random.default_rng(0)
    safe = tether.Categorical.from_probabilities([0.8, 0.2])
    other = tether.Categorical.from_probabilities([0.1, 0.9])
    policies = {"plain": safe, "other": other}
    actions = np.concatenate([safe.sample(300, rng), other.sample(600, rng)])
    options = {
        "safe": safe,
        "contexts": None,
        "actions": actions,
        "losses": np.zeros(900),
        "rewards": actions + rng.normal(size=900),
        "alpha": 0.5,
    }
    mixture = tether.Mixture([safe, other], [300, 600])
    choice = tether.choose(policies, **options, logged_by=mixture, rng=np.random.default_rng(1))
    assert choice.name == "other"
    rewards = {name: each.reward for name, each in choice.estimates.items()}
    assert rewards["plain"] == pytest.approx(0.2, abs=0.15)
    assert rewards["other"] == pytest.approx(0.9, abs=0.1)
    errors = {name: each.lead_error for name, each in choice.estimates.items()}
    untold = tether.choose(policies, **options, rng=np.random.default_rng(1)).estimates
    assert errors["other"] < untold["other"].lead_error
    shortlist = {"plain": safe, "few": tether.Shortlist(safe, other, size=2)}
    with pytest.raises(ValueError, match="must be the safe policy's"):
        tether.choose(shortlist, **options, logged_by=mixture, rng=rng)


def test_without_numbers_the_reward_model_is_a_constant():
    rng = np.random.default_rng(0)
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    actions, prompts = safe.sample(200, rng), np.array(["a", "b"] * 100)
    choice = tether.choose(
        {"plain": safe, "other": tether.Categorical.from_probabilities([0.1, 0.9])},
        safe=safe, contexts=prompts, actions=actions, losses=np.zeros(200),
        rewards=1.0 * actions, alpha=0.5, rng=rng,
    )  # fmt: skip
    assert choice.name == "other"
