"""Contexts of many requests in one call of `act`."""

import numpy as np
import pytest

import tether
from tether.rounds import RoundOverError, StoreError
from tether.rounds.errors import KeyUsedError
from tether.rounds.served_run import ServedRun
from tether.service.runs.action_batches import ActionRequest, act_together


class ShiftedGaussian:
    """Normal around the context; contexts above 9 are refused."""

    calls = 0

    def log_prob(self, contexts, actions):
        return -0.5 * (np.asarray(actions) - contexts) ** 2 - 0.5 * np.log(2 * np.pi)

    def sample(self, contexts, rng):
        self.calls += 1
        if (contexts > 9).any():
            raise ValueError(f"{contexts.max()} is too large")
        return rng.normal(contexts)


@pytest.fixture
def run(tmp_path):
    made = ServedRun(tether.Controller(ShiftedGaussian(), alpha=0.5, store=tmp_path / "run.db"))
    yield made
    made.close()


def test_requests_share_a_call_and_each_has_its_rows(run):
    safe = run.run.safe
    given = [[0.0], [1000.0 - 1000, 2.0], [3.0]]
    made = act_together(run, [ActionRequest(each) for each in given])
    assert safe.calls == 1
    assert [len(each) for each in made] == [1, 2, 1]
    ids = np.concatenate([each.ids for each in made])
    assert len(set(ids.tolist())) == 4
    stored = run.run.pending()
    np.testing.assert_array_equal(stored.contexts, [0.0, 0.0, 2.0, 3.0])
    np.testing.assert_array_equal(stored.actions, np.concatenate([each.actions for each in made]))


def test_a_request_is_refused_only_for_its_own_contexts(run):
    made = act_together(run, [ActionRequest([0.0]), ActionRequest([10.0]), ActionRequest(["a"])])
    assert len(made[0]) == 1
    assert "too large" in str(made[1])
    assert isinstance(made[2], ValueError)
    assert len(run.run.pending()) == 1


def test_a_key_is_a_call_of_its_own(run):
    safe = run.run.safe
    first, second = act_together(run, [ActionRequest([1.0], "a"), ActionRequest([2.0])])
    assert safe.calls == 2
    again, used = act_together(run, [ActionRequest([1.0], "a"), ActionRequest([5.0], "a")])
    assert again.ids.tolist() == first.ids.tolist()
    assert again.actions.tolist() == first.actions.tolist()
    assert isinstance(used, KeyUsedError)
    assert len(second) == 1


def test_an_outage_fails_for_all_of_a_call_and_is_not_tried_again(run, monkeypatch):
    calls = []

    def fail(contexts, *, key=None):
        calls.append(contexts)
        raise StoreError("gone")

    monkeypatch.setattr(run, "act", fail)
    made = act_together(run, [ActionRequest([1.0]), ActionRequest([2.0])])
    assert [type(each) for each in made] == [StoreError, StoreError]
    assert len(calls) == 1


def test_rounds_that_are_over_too_often_are_an_error(run, monkeypatch):
    def over(*arguments, **options):
        raise RoundOverError("over")

    monkeypatch.setattr("tether.rounds.round.Round.act", over)
    (made,) = act_together(run, [ActionRequest([1.0])])
    assert isinstance(made, RuntimeError)
    assert "rounds were over" in str(made)
