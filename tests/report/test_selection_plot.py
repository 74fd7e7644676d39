"""`Selection.plot`: risk and share kept along the thresholds, alpha and the threshold."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import tether

RNG = np.random.default_rng(3)
SCORES = RNG.random(600)
CLAIMS = tether.Claims(SCORES, RNG.random(600) < SCORES, np.arange(0, 601, 3))


def points(axes):
    """All points drawn as lines, without gaps."""
    drawn = np.concatenate([np.column_stack(line.get_data()) for line in axes.lines])
    return {tuple(point) for point in drawn[~np.isnan(drawn).any(axis=1)].round(9)}


def test_the_curve_alpha_and_the_threshold_are_drawn():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    for selection in (found, tether.Selection.from_dict(found.to_dict())):
        figure = selection.plot()
        assert isinstance(figure, Figure)
        axes, below = figure.axes
        curve = np.column_stack(selection.curve())
        finite = curve[np.isfinite(curve).all(axis=1)]
        assert {tuple(point) for point in finite.round(9)} <= points(axes)
        assert (round(selection.threshold, 9), round(selection.risk, 9)) in points(axes)
        assert "alpha = 0.2" in [text.get_text() for text in axes.texts]
        assert axes.get_title(loc="left").startswith("gCRC: threshold 0.")
        shares = np.column_stack([selection.curve().threshold, selection.curve_kept])
        shares = shares[np.isfinite(shares).all(axis=1)]
        assert {tuple(point) for point in shares.round(9)} <= points(below)
        assert (round(selection.threshold, 9), round(selection.kept.share, 9)) in points(below)
        assert below.get_ylabel() == "share of claims kept"


def test_a_loss_matrix_has_no_share_to_draw():
    (axes,) = tether.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2).plot().axes
    assert axes.get_title(loc="left") == "CRC: threshold 1"


def test_risks_above_alpha_have_their_own_color():
    axes, _ = tether.gcrc(CLAIMS, alpha=0.2).plot().axes
    above = axes.lines[1].get_ydata()
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    assert np.nanmin(above) > 0.2


def test_into_axes_of_the_user():
    figure = Figure()
    used, unused = figure.subplots(1, 2)
    assert tether.crc(CLAIMS, alpha=0.2).plot(ax=used) is figure
    assert used.lines
    assert not unused.lines
    part = Figure().subfigures(1, 2)[0]
    assert tether.crc(CLAIMS, alpha=0.2).plot(part.add_subplot()) is part.figure


def test_losses_with_different_alphas_share_a_scale():
    found = tether.gcrc(CLAIMS, alpha=[0.2, 0.5], loss=["fdr", "any_false"])
    axes, _ = found.plot().axes
    assert axes.get_ylabel() == "risk / alpha"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["1: fdr", "2: any_false", "alpha"]


def test_groups_are_one_line_each():
    found = tether.gcrc(CLAIMS, alpha=0.2, groups=np.arange(200) % 2)
    axes, _ = found.plot().axes
    assert axes.get_title(loc="left") == "gCRC: one threshold per group"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["0", "1", "alpha = 0.2"]


@pytest.mark.parametrize("loss", ["fdr", "miss"])
def test_no_threshold_passes(loss):
    axes, _ = tether.gcrc(CLAIMS, alpha=0.0001, loss=loss).plot().axes
    assert axes.get_title(loc="left") == "gCRC: no threshold passes"


def test_pyplot_is_not_imported_and_matplotlib_only_when_needed():
    code = (
        "import sys, numpy as np, tether; found = tether.crc(np.zeros((30, 2)), alpha=0.2);"
        "assert 'matplotlib' not in sys.modules; found.plot();"
        "assert 'matplotlib.pyplot' not in sys.modules;"
        "del sys.modules['tether.report.notebook_figure'];"
        "sys.modules['matplotlib.figure'] = None\n"
        "try: found.plot()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'tether[plot]'" in done.stdout
