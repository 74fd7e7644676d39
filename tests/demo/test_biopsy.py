"""The demonstration runs, shows what it found, and is reproducible."""

import sys

import numpy as np
import pytest

from tether.demo import biopsy
from tether.demo.biopsy_outcomes import ALPHAS
from tether.demo.biopsy_picture import draw


def test_every_policy_is_deployed_at_every_alpha(demo_run):
    assert len(demo_run.outcomes) == 2 + 5 * len(ALPHAS)
    for outcome in demo_run.outcomes:
        assert outcome.missed.shape == outcome.avoided.shape == (6,)


def test_the_table_and_the_sentences_are_shown_before_the_path_of_the_picture(demo_run):
    text = "\n".join(demo_run.output)
    assert all(outcome.name in text for outcome in demo_run.outcomes)
    assert demo_run.output[-1] == f"Picture: {demo_run.folder / 'demo.png'}"


def test_the_same_seed_gives_the_same_result(demo_run, tmp_path):
    again = biopsy.run(tmp_path, splits=2, show=lambda line: None)
    for first, second in zip(demo_run.outcomes, again, strict=True):
        assert np.array_equal(first.missed[:2], second.missed)
        assert np.array_equal(first.avoided[:2], second.avoided)
    draw(again, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "demo.png").read_bytes()


@pytest.mark.parametrize("splits", [1, 0, -3, 2.5])
def test_too_few_splits_for_a_standard_error_are_rejected(splits, tmp_path):
    with pytest.raises(ValueError, match=f"splits must be an integer of at least 2, .*{splits}"):
        biopsy.run(tmp_path, splits=splits)


def test_without_scikit_learn_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"tether\[demo\]"):
        biopsy.run(tmp_path)
