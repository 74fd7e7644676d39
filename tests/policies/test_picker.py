"""Scores become picks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether import Shortlist, calibrate
from tether.policies import Picker, ShortlistRows
from tether.policies.picker import scoring_once


def near(contexts, rng):
    return rng.normal(contexts)


def above(contexts, candidates):
    return candidates - contexts[:, None]


@given(
    st.lists(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0, 1e300]), min_size=3, max_size=3),
             min_size=1, max_size=4),
    st.sampled_from([0.0, 1e-300, 0.5, 1.0, 100.0]),
)  # fmt: skip
def test_any_scores_become_a_distribution(scores, temperature):
    scores = np.array(scores)
    picker = Picker(lambda contexts, candidates: candidates, 3, temperature)
    table = np.exp(picker.log_prob_all(ShortlistRows(len(scores), scores)))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    for row, chosen in zip(scores, table, strict=True):
        if np.isneginf(row).all():
            np.testing.assert_allclose(chosen, 1 / 3)
        elif temperature == 0:
            np.testing.assert_allclose(chosen, (row == row.max()) / (row == row.max()).sum())
        else:
            assert (np.diff(chosen[np.argsort(row, kind="stable")]) >= -1e-12).all()


def test_the_best_candidate_is_picked_at_temperature_zero():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=400)
    actions = near(contexts, rng)
    shortlist = Shortlist(near, above, size=4, temperature=0)
    rows = shortlist.draw(np.zeros(100), rng)
    index = shortlist.picker.sample(rows, rng)
    np.testing.assert_array_equal(rows.picked(index), rows.candidates.max(axis=1))
    np.testing.assert_array_equal(shortlist.picker.log_prob(rows, index), np.zeros(100))
    log = shortlist.make_log(contexts, actions, actions > contexts + 1.5, rng)
    found = calibrate(log, alpha=0.15, family="mix")  # clip needs a blend
    assert 0 < found.beta < np.inf
    shortlist.tethered(found).sample([0.0], rng)


def test_rows_are_scored_once_within_a_block_and_again_after_it():
    calls = []

    def counted(contexts, candidates):
        calls.append(len(candidates))
        return candidates

    picker, rows = Picker(counted, 2), ShortlistRows(3, np.zeros((3, 2)))
    with scoring_once(picker, rows):
        picker.log_prob_all(rows)
        picker.log_prob(rows, [0, 1, 1])
        assert calls == [3]
        picker.log_prob_all(rows[:2])
        assert calls == [3, 2]
    picker.log_prob_all(rows)
    assert calls == [3, 2, 3]
    with scoring_once(None, rows):  # any other policy is left alone
        pass


class Tensor:
    """What a torch tensor has."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


def test_scores_may_be_tensors():
    rows = ShortlistRows(2, np.array([[1.0, 2.0], [3.0, 4.0]]))
    picker = Picker(lambda contexts, candidates: Tensor(candidates), 2)
    np.testing.assert_array_equal(picker.scores(rows), rows.candidates)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda x, c: c[:, 0], r"the score has shape \(10,\) .* expected \(10, 4\)"),
        (lambda x, c: np.where(c > 0, np.nan, c), r"is nan: expected a score below \+inf, not NaN"),
        (lambda x, c: np.where(c > 0, np.inf, c), r"is inf: expected a score below \+inf"),
        (lambda x, c: c.astype(str), "must hold real numbers"),
    ],
)
def test_bad_scores_are_refused(score, message):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=10)
    with pytest.raises((ValueError, TypeError), match=message):
        Shortlist(near, score, size=4).make_log(contexts, near(contexts, rng), np.zeros(10), rng)


def test_threads_remember_their_own_scores():
    """A score is computed once for the rows of a call, whatever other threads do meanwhile."""
    import threading

    barrier, calls = threading.Barrier(4), []

    def score(contexts, candidates):
        calls.append(float(candidates[0, 0]))
        return candidates

    picker = Picker(score, size=2)

    def use(number):
        rows = ShortlistRows(1, np.array([[float(number), 0.0]]))
        with scoring_once(picker, rows):
            barrier.wait(30)
            first = picker.scores(rows)
            barrier.wait(30)
            assert picker.scores(rows) is first

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(calls) == [0.0, 1.0, 2.0, 3.0]


def test_a_score_that_sorts_its_candidates_in_place_changes_no_row():
    def sorting(contexts, candidates):
        scores = candidates.copy()
        candidates.sort(axis=1)
        contexts[:] = 0.0
        return scores

    rng = np.random.default_rng(0)
    contexts, candidates = rng.normal(size=5), rng.normal(size=(5, 4))
    rows = ShortlistRows(contexts.copy(), candidates.copy())
    assert np.array_equal(Picker(sorting, size=4).scores(rows), candidates)
    assert np.array_equal(rows.candidates, candidates)
    assert np.array_equal(rows.contexts, contexts)
