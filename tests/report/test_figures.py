"""Figures of results draw the numbers of the results, and no label covers another one."""

import numpy as np
import pytest

import tether
from tests.report import figure_texts

RNG = np.random.default_rng(4)
ACTIONS = RNG.normal(size=600)
SCORES = RNG.random(900)
CLAIMS = tether.Claims(SCORES, RNG.random(900) < SCORES, np.arange(0, 901, 3))


def make_log(losses=1):
    made = {f"loss {k}": 1.5 - 0.3 * k < ACTIONS for k in range(losses)}
    optimized = np.where(RNG.random(600) < 0.02, -np.inf, -((ACTIONS - 1) ** 2) / 2)
    given = made if losses > 1 else made["loss 0"]
    return tether.Log(given, -(ACTIONS**2) / 2, optimized, reward=ACTIONS)


def require_clear(figure):
    assert figure_texts.overlaps(figure) == []
    assert figure_texts.cut_off(figure) == []


def points(axes):
    return [line.get_xydata()[0] for line in axes.lines if line.get_marker() == "o"]


DRAWS = tether.Proposals(-(ACTIONS**2) / 2, -((ACTIONS - 1) ** 2) / 2)
RULES = [{"alpha": 0.15}, {"promise": 0.2}, {"alpha": 0.9}, {"alpha": 0.01}]


@pytest.mark.parametrize("rule", RULES)
def test_a_calibration_shows_beta_at_its_risk(rule):
    found = tether.calibrate(make_log(), DRAWS, **rule)
    figure = found.plot()
    require_clear(figure)
    marked = points(figure.axes[0])
    assert bool(marked) == bool(np.isfinite(found.log_beta))
    if marked:
        assert marked[0] == pytest.approx([found.log_beta, found.binding.risk])


def test_several_losses_share_a_scale():
    found = tether.calibrate(make_log(2), alpha={"loss 0": 0.15, "loss 1": 0.3})
    figure = found.plot()
    require_clear(figure)
    assert "limits beta" in figure.axes[0].get_legend().get_texts()[0].get_text() + (
        figure.axes[0].get_legend().get_texts()[1].get_text()
    )


@pytest.mark.parametrize(
    "options", [{}, {"groups": np.arange(300) % 3}, {"loss": ["fdr", "any_false"]}]
)
def test_a_selection_shows_its_threshold_at_its_risk_and_what_it_keeps(options):
    found = tether.gcrc(CLAIMS, alpha=0.3, **options)
    figure = found.plot()
    require_clear(figure)
    above, below = figure.axes
    parts = list(found.groups.values()) or list(found.by_loss) or [found]
    for part, point, kept in zip(parts, points(above), points(below), strict=True):
        assert point == pytest.approx([part.threshold, part.risk])
        assert kept == pytest.approx([part.threshold, part.kept.share])
    axes = figure.axes[0].figure.add_subplot()
    assert found.plot(axes) is figure
    assert tether.gcrc(np.zeros((50, 3)), alpha=0.2).plot().axes[0].get_ylabel() == "risk"


def test_gains_alphas_and_logs():
    log = make_log()
    found = tether.calibrate(log, alpha=0.15)
    require_clear(found.gain.plot())
    require_clear(log.plot())
    grid = tether.gain_over_alphas(log, alphas=[0.1, 0.15, 0.2])
    figure = grid.plot()
    require_clear(figure)
    line = next(line for line in figure.axes[0].lines if line.get_label() == "tethered")
    assert line.get_xdata().tolist() == [0.1, 0.15, 0.2]


def test_comparisons_of_calibrations():
    log, rules = make_log(), ({"alpha": 0.15}, {"promise": 0.15})
    found = tether.compare([tether.calibrate(log, DRAWS, **rule) for rule in rules])
    assert found.names == ("alpha 0.15", "promise 0.15")
    assert {"beta", "asked", "promise", "useful", "changed", "reward"} <= set(found.to_frame())
    assert "calibrate afterwards" in str(found)
    require_clear(found.plot())


def test_comparisons_of_selections_put_the_chain_beside_the_paper():
    every = [
        tether.gcrc(CLAIMS, alpha=0.2),
        tether.gcrc(CLAIMS, promise=0.2),
        tether.ltt(CLAIMS, alpha=0.2),
    ]
    found = tether.compare(every)
    frame = found.to_frame()
    assert frame["threshold"].tolist() == [each.threshold for each in every]
    assert frame["rule"].tolist() == ["alpha", "promise", "confidence"]
    assert "soft chain" in found.names[1]
    require_clear(found.plot())
    with pytest.raises(TypeError, match="results"):
        tether.compare([every[0], 3])
    with pytest.raises(ValueError, match="results"):
        tether.compare([])


def test_figures_need_no_pyplot_and_no_page():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, tether; tether.gcrc(np.zeros((50, 3)), alpha=0.2).plot(); "
        "names = ('matplotlib.pyplot', 'tether.report.page', 'tether.rounds', 'sqlalchemy'); "
        "assert not any(name in sys.modules for name in names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
