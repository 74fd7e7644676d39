"""`Calibration.plot`: the curve, alpha, beta and its neighbourhood, without pyplot."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import tether
from tests.report import histories

OPTIMIZED = tether.Gaussian(1.0, 0.8)


def calibrated(alpha=0.1):
    return histories.calibrated(OPTIMIZED, 500, alpha, np.random.default_rng(0))


def drawn(axes):
    """All that is drawn as lines, without the gaps between their parts."""
    parts = [np.column_stack(line.get_data()) for line in axes.lines]
    every = np.concatenate(parts)
    return every[~np.isnan(every).any(axis=1)]


def test_curve_alpha_and_beta_are_drawn():
    found = calibrated()
    for one in (found, tether.Calibration.from_dict(found.to_dict())):
        figure = one.plot()
        assert isinstance(figure, Figure)
        whole, near = figure.axes
        seen = {tuple(np.round(point, 9)) for point in drawn(whole)}
        curve = one.curve()
        assert {
            tuple(p) for p in np.round(np.column_stack([curve.log_beta, curve.risk]), 9)
        } <= seen
        assert (round(one.log_beta, 9), round(one.risk, 9)) in seen
        assert near.get_xlim() == pytest.approx(one.log_beta + np.log([0.5, 2]))
        low, high = near.get_ylim()
        assert low < one.alpha < high
        assert whole.get_title(loc="left") == f"beta = {one.beta:.3g}"


def test_what_is_above_alpha_has_its_own_color():
    whole = calibrated().plot().axes[0]
    colors = {}
    for line in whole.lines[:2]:
        height = line.get_ydata()[~np.isnan(line.get_ydata())]
        colors[line.get_color()] = (height.min(), height.max())
    (below, above) = colors.values()
    assert below[1] == pytest.approx(0.1)
    assert above[0] == pytest.approx(0.1)
    assert above[1] > 0.2


def test_into_axes_of_the_user():
    figure = Figure()
    mine, other = figure.subplots(1, 2)
    assert calibrated().plot(ax=mine) is figure
    assert len(mine.lines) >= 4
    assert not other.lines
    part = Figure().subfigures(1, 2)[0]
    assert calibrated().plot(part.add_subplot()) is part.figure


@pytest.mark.parametrize(("alpha", "said"), [(0.9, "beta = ∞"), (0.01, "no beta passes")])
def test_ends(alpha, said):
    (axes,) = calibrated(alpha).plot().axes
    assert axes.get_title(loc="left").startswith(said)


def test_several_constraints_share_a_scale():
    actions = np.random.default_rng(1).normal(size=400)
    log = tether.Log(
        {"harm": actions > 1.5, "delay": 5 * (actions > 1.8)},
        -(actions**2) / 2,
        -((actions - 1) ** 2) / 2,
    )
    found = tether.calibrate(
        log, alpha={"harm": 0.12, "delay": 0.5}, bound={"harm": 1.0, "delay": 5.0}
    )
    whole, _ = found.plot().axes
    labels = [each.get_text() for each in whole.get_legend().get_texts()]
    assert {label.split(",")[0] for label in labels} == {"harm", "delay"}
    assert sum("binding" in label for label in labels) == 1
    seen = drawn(whole)
    for each in found.constraints:
        curve = found.curve(each.name)
        assert np.isclose(seen[:, 1, None], curve.risk / each.alpha).any(axis=0).all()


def test_pyplot_is_left_alone(tmp_path):
    code = (
        "import sys; from tests.report.test_plot import calibrated; "
        f"calibrated().plot().savefig({str(tmp_path / 'found.png')!r}); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert (tmp_path / "found.png").stat().st_size > 5_000
