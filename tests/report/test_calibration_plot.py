"""`Calibration.plot`: the curve, alpha, beta and its neighborhood, without pyplot."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import tether
from tests.report.example_histories import calibrate_on_simulated_log
from tether.report.plot_frame import PASSING_COLOR

OPTIMIZED = tether.Gaussian(1.0, 0.8)


def make_calibration(alpha=0.1):
    return calibrate_on_simulated_log(OPTIMIZED, 500, alpha, np.random.default_rng(0))


def line_points(axes):
    """The points of all lines, without the gaps in them."""
    points = np.concatenate([np.column_stack(line.get_data()) for line in axes.lines])
    return points[~np.isnan(points).any(axis=1)]


def test_curve_alpha_and_beta_are_line_points():
    fresh = make_calibration()
    for calibration in (fresh, tether.Calibration.from_dict(fresh.to_dict())):
        figure = calibration.plot()
        assert isinstance(figure, Figure)
        overview, near = figure.axes
        drawn = {tuple(np.round(point, 9)) for point in line_points(overview)}
        curve = calibration.curve()
        assert {
            tuple(p) for p in np.round(np.column_stack([curve.log_beta, curve.risk]), 9)
        } <= drawn
        assert (round(calibration.log_beta, 9), round(calibration.risk, 9)) in drawn
        assert near.get_xlim() == pytest.approx(calibration.log_beta + np.log([0.5, 2]))
        low, high = near.get_ylim()
        assert low < calibration.alpha < high
        assert overview.get_title(loc="left") == f"beta = {calibration.beta:.3g}"


def test_the_part_above_alpha_has_its_own_color():
    overview = make_calibration().plot().axes[0]
    colors = {}
    for line in overview.lines[:2]:
        height = line.get_ydata()[~np.isnan(line.get_ydata())]
        colors[line.get_color()] = (height.min(), height.max())
    (below, above) = colors.values()
    assert below[1] == pytest.approx(0.1)
    assert above[0] == pytest.approx(0.1)
    assert above[1] > 0.2


def test_what_a_confidence_does_not_allow_is_not_drawn_as_allowed():
    rng = np.random.default_rng(2)
    actions = rng.normal(size=2000)
    log = tether.Log(
        actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2, context=np.arange(2000)
    )
    calibration = tether.calibrate(log, alpha=0.12, family="mix", test_weight=50.0, confidence=0.9)
    assert calibration.exists
    overview = calibration.plot().axes[0]
    allowed, *_ = (line for line in overview.lines if line.get_color() == PASSING_COLOR)
    x, y = allowed.get_data()
    assert x[~np.isnan(y)].max() == pytest.approx(calibration.log_beta)
    curve = calibration.curve()
    not_certified = (curve.risk < calibration.alpha) & (curve.log_beta > calibration.log_beta)
    assert not_certified.any()
    assert "with confidence 0.9" in "".join(text.get_text() for text in overview.texts)


def test_it_can_be_drawn_into_given_axes():
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert make_calibration().plot(ax=first) is figure
    assert len(first.lines) >= 4
    assert not second.lines
    subfigure = Figure().subfigures(1, 2)[0]
    assert make_calibration().plot(subfigure.add_subplot()) is subfigure.figure


@pytest.mark.parametrize(("alpha", "title"), [(0.9, "beta = ∞"), (0.01, "no beta passes")])
def test_an_infinite_or_missing_beta_is_in_the_title(alpha, title):
    (axes,) = make_calibration(alpha).plot().axes
    assert axes.get_title(loc="left").startswith(title)


def test_several_constraints_share_a_scale():
    actions = np.random.default_rng(1).normal(size=400)
    log = tether.Log(
        {"harm": actions > 1.5, "delay": 5 * (actions > 1.8)},
        -(actions**2) / 2,
        -((actions - 1) ** 2) / 2,
    )
    calibration = tether.calibrate(
        log, alpha={"harm": 0.12, "delay": 0.5}, bound={"harm": 1.0, "delay": 5.0}
    )
    overview, _ = calibration.plot().axes
    labels = [text.get_text() for text in overview.get_legend().get_texts()]
    assert {label.split(",")[0] for label in labels} == {"harm", "delay", "alpha"}
    assert sum("limits beta" in label for label in labels) == 1
    points = line_points(overview)
    for constraint in calibration.constraints:
        curve = calibration.curve(constraint.name)
        assert np.isclose(points[:, 1, None], curve.risk / constraint.alpha).any(axis=0).all()


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pyplot_is_not_imported(tmp_path):
    code = (
        "import sys; from tests.report.test_calibration_plot import make_calibration; "
        f"make_calibration().plot().savefig({str(tmp_path / 'calibration.png')!r}); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    assert run_python(code) == "False"
    assert (tmp_path / "calibration.png").stat().st_size > 5_000


def test_neither_rounds_nor_the_page_is_imported():
    code = (
        "import sys, numpy as np, tether; rng = np.random.default_rng(0); a = rng.normal(size=200);"
        "log = tether.Log(a > 1.5, -(a**2) / 2, -((a - 1) ** 2) / 2);"
        "tether.calibrate(log, alpha=0.2).plot();"
        "unwanted = ('sqlalchemy', 'tether.rounds', 'tether.report.page');"
        "print([name for name in sys.modules if name.startswith(unwanted)])"
    )
    assert run_python(code) == "[]"


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "tether.report.notebook_figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'tether\[plot\]'"):
        make_calibration().plot()


def test_the_promise_and_the_loss_of_today_stand_beside_alpha():
    found = make_calibration()
    written = {text.get_text() for text in found.plot().axes[0].texts}
    assert f"promise: at most {found.promise:.3g}" in written
    assert f"alpha = {found.alpha:g}" in written
    assert f"safe policy today: {found.safe_losses['loss']:.3g}" in written
    loaded = tether.Calibration.from_dict(found.to_dict())
    assert loaded.safe_losses is None
    assert not any("today" in text.get_text() for text in loaded.plot().axes[0].texts)


def test_the_share_of_mix_is_in_the_title():
    actions = np.random.default_rng(0).normal(size=500)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 0.3) ** 2) / 2, max_ratio=5.0)
    found = tether.calibrate(log, alpha=0.08, family="mix")
    share = tether.Mix().optimized_share(found.log_beta)
    title = found.plot().axes[0].get_title(loc="left")
    assert title.endswith(f"{share:.1%} by the optimized policy")


def test_a_promise_that_no_beta_has_is_the_line_and_nothing_below_it_looks_passing():
    rng = np.random.default_rng(5)
    actions = rng.normal(size=1000)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2, max_ratio=200)
    asked = 1.12 * float((actions > 1.5).mean())
    found = tether.calibrate(log, promise=asked, family="mix", test_weight=3.0)
    assert not found.exists
    assert found.nearest is not None
    for calibration in (found, tether.Calibration.from_dict(found.to_dict())):
        (axes,) = calibration.plot().axes
        texts = " ".join(text.get_text() for text in axes.texts)
        assert "promise asked for" in texts
        assert "alpha =" not in texts
        assert "A risk below the line is not enough" in texts
        assert PASSING_COLOR not in {line.get_color() for line in axes.lines}


def test_of_a_mix_the_axis_shows_shares_of_decisions():
    log = tether.Log([0.0] * 500, [-1.0] * 500, [-0.7, -1.5] * 250, max_ratio=2.0)
    found = tether.calibrate(log, promise=0.2, family="mix")
    (axes,) = found.plot().axes
    low, high = axes.get_xlim()
    assert -8 < low < high < 8
    assert "50 %" in [label.get_text() for label in axes.get_xticklabels()]
    assert "share of the decisions" in axes.get_xlabel()
