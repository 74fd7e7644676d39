"""The normalizing constant of clip in every context, at one beta after the other."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import drawn_world
from tether.control import clip_normalizer
from tether.control.clip_normalizer import ClipNormalizer
from tether.control.context_draws import gather_draws


def test_windows_give_the_normalizer_at_every_beta(monkeypatch):
    """Few draws per window, betas at their edges and in any order, against sums of logs."""
    monkeypatch.setattr(clip_normalizer, "DRAWS_PER_WINDOW", 16)
    rng = np.random.default_rng(22)
    log, proposals, *_ = drawn_world(rng, rows=30)
    draws = gather_draws(log, proposals)
    normalizer = ClipNormalizer(draws)
    assert len(normalizer.edge) > 5
    betas = np.concatenate((normalizer.edge[1:-1], rng.normal(size=30) * 2, [-300.0, 300.0]))
    for log_beta in rng.permutation(betas):
        expected = draws.log_psi(tether.Clip(), log_beta)
        assert normalizer.log_psi(log_beta) == pytest.approx(expected, abs=1e-9)
