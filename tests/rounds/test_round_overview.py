"""Rounds, controllers and releases show what their store has."""

import numpy as np

import tether


def test_a_round_and_its_run_show_the_record(tmp_path):
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(0.5, 1.0)
    with tether.Controller(safe, store=tmp_path / "run.db", alpha=0.2) as run:
        first = run.begin()
        taken = first.act(200, rng)
        run.observe(taken.ids, taken.actions > 1.5)
        second = run.begin(optimized)
        assert str(first.stored) == str(run.history().rounds[0])
        assert second.stored.number == 2
        assert first.to_frame()["observed"].tolist() == [200]
        assert run.to_frame()["round"].tolist() == [1, 2]
        assert "round 2" in second._repr_html_()
        assert run._repr_html_() == run.history()._repr_html_()
        assert second.plot().axes
        assert len(run.plot().axes) == 2


def test_a_release_shows_its_steps():
    old = {"complaint": [0.0] * 990 + [1.0] * 10}
    with tether.Release("sqlite://", {"complaint": 0.02}, old=old) as release:
        release.advance()
        assert release.to_frame()["step"].tolist() == [1, 2]
        assert release._repr_html_() == release.history()._repr_html_()
        assert len(release.plot().axes) == 2
