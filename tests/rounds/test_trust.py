"""What a run must not take on trust: policies that change, columns cut short, rows that differ."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tether
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller
from tether.rounds.store import rows
from tether.rounds.store.codec import Codec


class Moving:
    """A Gaussian whose mean somebody changes."""

    def __init__(self, mean):
        self.mean = mean

    def sample(self, contexts, rng):
        return tether.Gaussian(self.mean, 0.9).sample(contexts, rng)

    def log_prob(self, contexts, actions):
        return tether.Gaussian(self.mean, 0.9).log_prob(contexts, actions)


def started(optimized, **options):
    terms = {"alpha": 0.3, "watched": 0.9, "store": "sqlite://"} | options
    run = Controller(tether.Gaussian(0.0), **terms)
    rng = np.random.default_rng(0)
    taken = run.begin().act(200, rng)
    run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
    return run, run.begin(optimized), rng


def test_a_policy_trained_in_place_is_refused_when_it_acts():
    policy = Moving(0.6)
    _, round_, rng = started(policy)
    assert round_.beta > 0
    round_.act(10, rng)
    policy.mean = 2.5
    with pytest.raises(ValueError, match=r"policy of round 2.*trained further in place"):
        round_.act(10, rng)


def test_a_policy_trained_in_place_is_refused_when_the_next_round_begins():
    policy = Moving(0.6)
    run, round_, rng = started(policy)
    run.observe(round_.act(100, rng).ids, np.zeros(100))
    policy.mean = 1.2
    with pytest.raises(ValueError, match=r"policy of round 2.*trained further in place"):
        run.begin(policy)
    assert run.begin().number == 3  # nothing was written


def test_a_classifier_refitted_in_place_is_refused():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    model = LogisticRegression().fit(x, x[:, 0] > 0.8)
    safe = tether.Categorical.from_probabilities([0.9, 0.1], actions=[False, True])
    run = Controller(safe, alpha=0.3, watched=0.9, store="sqlite://")
    for number in (1, 2):
        optimized = None if number == 1 else tether.Categorical.from_classifier(model)
        taken = run.begin(optimized).act(x, rng)
        run.observe(taken.ids, (taken.actions & (x[:, 1] > 0)).astype(float))
    model.fit(x, x[:, 1] > 0)
    with pytest.raises(ValueError, match="trained further in place"):
        run.begin(tether.Categorical.from_classifier(model))


def test_a_safe_policy_that_changes_is_refused():
    safe = Moving(0.0)
    run = Controller(safe, alpha=0.3, store="sqlite://")
    taken = run.begin().act(50, np.random.default_rng(0))
    run.observe(taken.ids, np.zeros(50))
    safe.mean = 0.5
    with pytest.raises(ValueError, match="the safe policy is not the 'safe' of this store"):
        run.begin(Moving(0.6))


class Cut:
    """Numpy, until the count is over: then somebody interrupts."""

    def __init__(self, calls):
        self.calls = calls

    def __getattr__(self, name):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return getattr(np, name)


def test_an_interrupt_leaves_no_column_longer_than_another(monkeypatch):
    world, rng = World("tables"), np.random.default_rng(2)
    run = Controller(world.safe(), alpha=0.25, watched=0.9, store="sqlite://")
    one_round(run, world, 1, 100, rng)
    cuts = 0
    for calls in range(60):
        late = rows.Rows()
        monkeypatch.setattr(rows, "np", Cut(calls))
        try:
            with run._store.reading() as connection:
                late.refresh(connection)
        except KeyboardInterrupt:
            cuts += 1
        monkeypatch.setattr(rows, "np", np)
        contexts = 0 if isinstance(late.contexts, int) else len(late.contexts)
        names = ("round", "served", "loss", "reward", "report", "log_safe", "log_prob")
        assert {len(getattr(late, name)) for name in names} == {contexts}
        assert not late.withdrawn.any()
        with run._store.reading() as connection:
            late.refresh(connection)  # and it goes on where it was
        assert len(late) == late.observed.sum() == 100
    assert 10 < cuts < 60


def test_contexts_that_would_not_come_back_are_refused():
    for contexts, words in [
        (pd.DataFrame({"a": pd.Categorical(["low", "high"])}), "holds categories"),
        (pd.DataFrame({0: [1.0]}), "named by text"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "different names"),
        (pl.DataFrame({"a": [1.0]}), "to_pandas"),
    ]:
        with pytest.raises(TypeError, match=words):
            Codec.of("contexts", contexts)
    for row in [[(1, 2)], [{1: 2}], [[np.int64(3)]]]:
        array = np.empty(1, dtype=object)
        array[:] = [row]
        with pytest.raises(TypeError, match="cannot be stored"):
            Codec.of("contexts", array).encode("contexts", array)
    for text in ["a\x00", "\ud800"]:
        array = np.array([text], dtype=object)
        with pytest.raises(ValueError, match="cannot be stored"):
            Codec.of("contexts", array).encode("contexts", array)


def test_narrow_actions_may_be_recorded_first():
    rng = np.random.default_rng(3)
    run = Controller(tether.Gaussian(0.0), alpha=0.3, store="sqlite://")
    round_ = run.begin()
    round_.record(None, rng.normal(size=20).astype(np.float32), rng)
    assert round_.act(5, rng).actions.dtype == np.float64


def test_a_family_is_known_by_more_than_its_name(tmp_path):
    class Half(tether.Family):  # a family of the user's own, with a parameter
        name, smoothness, normalized = "half", 1.0, True

        def __init__(self, share):
            self.share = share

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return tether.Mix().log_kernel(log_safe, log_optimized, log_beta)

        def log_density(self, log_safe, log_optimized, log_beta, log_psi):
            return tether.Mix().log_density(log_safe, log_optimized, log_beta, log_psi)

    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.2)).close()
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.2)).close()
    with pytest.raises(ValueError, match="family_mark is"):
        Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", family=Half(0.9))


def test_what_the_safe_policy_never_does_is_refused_before_it_is_done():
    safe = tether.Categorical.from_probabilities([0.5, 0.5, 0.0], actions=["a", "b", "c"])
    bold = tether.Categorical.from_probabilities([0.2, 0.3, 0.5], actions=["a", "b", "c"])
    rng = np.random.default_rng(4)
    for contexts in (200, np.zeros((200, 1))):
        run = Controller(safe, alpha=0.3, store="sqlite://")
        run.observe(run.begin().act(contexts, rng).ids, np.zeros(200))
        with pytest.raises(ValueError, match="does what the safe policy never does"):
            run.begin(bold)
        assert run.round.number == 1


def test_against_the_last_policy_needs_one_that_can_do_everything():
    safe = tether.Categorical.from_probabilities([0.4, 0.4, 0.2], actions=["a", "b", "c"])
    narrow = tether.Categorical.from_probabilities([0.6, 0.4, 0.0], actions=["a", "b", "c"])
    rng = np.random.default_rng(5)
    run = Controller(safe, alpha=0.5, watched=0.9, store="sqlite://", against="last")
    for policy in (None, narrow):
        run.observe(run.begin(policy).act(np.zeros((100, 1)), rng).ids, np.zeros(100))
    with pytest.raises(ValueError, match=r"against='last': what round 2 deployed never takes"):
        run.begin(safe)


def test_a_normalizer_is_found_again_as_it_was(tmp_path):
    policies = {"round 2": tether.Gaussian(0.6, 0.9)}
    run, round_, _ = started(policies["round 2"], store=tmp_path / "run.db")
    expected = round_.policy.normalizer(1).log_psi[0]
    run.close()
    options = {"alpha": 0.3, "watched": 0.9, "store": tmp_path / "run.db", "policies": policies}
    with Controller(tether.Gaussian(0.0), **options) as run:
        assert run.round.policy.normalizer(1).log_psi[0] == expected
        assert run.round.policy._remembered is not None
    with pytest.raises(ValueError, match="normalizer_draws is 5"):
        Controller(tether.Gaussian(0.0), normalizer_draws=5, **options)


def test_a_store_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for store in ("", " ", None, 3):
        with pytest.raises(ValueError, match="store must be a path or a database URL"):
            Controller(tether.Gaussian(0.0), alpha=0.1, store=store)
    assert os.listdir(tmp_path) == []


def test_terms_are_checked_before_they_are_kept(tmp_path):
    for options, words in [
        ({"test_weight": "analitic"}, "test_weight must be one of"),
        ({"test_weight": -1.0}, "test_weight must be above 0"),
        ({"test_weight": "analytic", "family": "mix"}, "does not exist for family 'mix'"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"name": ""}, "name must be a word"),
        ({"calibration_share": True}, "calibration_share must be a number"),
        ({"alpha": {"a": 0.1}}, "alpha must be a number"),
        ({"context_score": 3}, "context_score must be a function"),
    ]:
        given = {"alpha": 0.1} | options
        with pytest.raises((ValueError, TypeError), match=words):
            Controller(tether.Gaussian(0.0), store=tmp_path / "run.db", **given)
    assert os.listdir(tmp_path) == []


def test_a_name_is_one_policys():
    run, _, _ = started(Moving(0.6))
    run.begin(tether.Gaussian(0.5), name="m")
    run.begin(tether.Gaussian(0.5), name="m")  # the same one
    with pytest.raises(ValueError, match="name 'm' is that of the policy of round 3"):
        run.begin(tether.Gaussian(0.7), name="m")
    with pytest.raises(ValueError, match="is not known to be the same"):
        run.begin(Moving(0.5), name="m")


def test_enough_is_enough():
    run = Controller(
        tether.Gaussian(0.0), alpha=0.5, store="sqlite://", enough=0.55, calibration_share=1
    )
    taken = run.begin().act(100, np.random.default_rng(0))
    run.observe(taken.ids[:55], np.zeros(55))
    assert "45 of 100" in run.begin(tether.Gaussian(0.2)).note
