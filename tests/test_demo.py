"""The demonstration runs, says what it shows, and is the same every time."""

import sys

import numpy as np
import pytest

from tether.demo import biopsy, biopsy_rounds
from tether.rounds import read_history


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    said, out = [], tmp_path_factory.mktemp("demo") / "new folder"
    return biopsy.run(out, splits=12, show=said.append), "\n".join(said), out


def test_it_shows_every_policy_at_every_alpha(ran):
    outcomes, said, out = ran
    assert len(outcomes) == 2 + 3 * len(biopsy.ALPHAS)
    for each in outcomes:
        assert each.missed.shape == each.avoided.shape == (12,)
        assert each.name in said
    assert "± one standard error" in said
    assert (out / "demo.png").stat().st_size > 20_000


def test_each_part_is_read_in_one_sentence(ran):
    outcomes, said, _ = ran
    for sentence in biopsy.readings(outcomes):
        assert sentence in said
        assert sentence.count(". ") == 0


def test_what_it_shows_is_what_the_library_promises(ran):
    """Tether is not over alpha, spares more than the safe policy does, and more as alpha grows."""
    at = {(each.name, each.alpha): each for each in ran[0]}
    for family in biopsy.FAMILIES:
        spared = [at[f"tether, {family}", alpha].avoided.mean() for alpha in biopsy.ALPHAS]
        assert spared[0] > at["safe", None].avoided.mean()
        assert np.all(np.diff(spared) > 0)
        assert not any(at[f"tether, {family}", alpha].over for alpha in biopsy.ALPHAS)


def test_it_is_the_same_every_time_and_does_without_rich(ran, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    said = []
    again = biopsy.run(tmp_path, splits=12, show=said.append)
    for one, two in zip(ran[0], again, strict=True):
        assert np.array_equal(one.missed, two.missed)
        assert np.array_equal(one.avoided, two.avoided)
    assert any(line.startswith("tether, clip") for line in said)
    assert (ran[2] / "demo.png").read_bytes() == (tmp_path / "demo.png").read_bytes()


@pytest.mark.parametrize("splits", [1, 0, -3, 2.5])
def test_too_few_splits_for_a_standard_error_are_refused(splits, tmp_path):
    with pytest.raises(ValueError, match=f"splits must be .* at least 2, .*got {splits}"):
        biopsy.run(tmp_path, splits=splits)


def test_without_scikit_learn_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"tether\[demo\]"):
        biopsy.run(tmp_path)


def test_the_rounds_follow_the_model_further_and_leave_a_store_and_a_report(tmp_path):
    said = []
    rounds = biopsy_rounds.run_rounds(tmp_path, show=said.append)
    assert len(rounds) == biopsy_rounds.ROUNDS
    assert rounds[0].beta == 0
    assert all(each.pending == 0 for each in rounds)
    assert rounds[-1].reward.lower > rounds[0].reward.upper  # clearly more are spared
    losses = sum(each.loss.mean * each.loss.count for each in rounds[1:])
    assert losses / sum(each.loss.count for each in rounds[1:]) < 0.06
    assert read_history(tmp_path / "demo.db").rounds == rounds
    assert f"Report: {tmp_path / 'report.html'}" in said
    assert "<svg" in (tmp_path / "report.html").read_text()
    again = biopsy_rounds.run_rounds(tmp_path, show=said.append)  # the old store is replaced
    assert [each.beta for each in again] == [each.beta for each in rounds]
