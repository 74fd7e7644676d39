"""Figures of results draw the numbers of the results, and no label covers another one."""

import base64
import pickle
import re
import struct
import subprocess
import sys
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import tether
from tests.view import figure_texts
from tether._core.words import Columns, Description
from tether.view.text import summary_card

RNG = np.random.default_rng(4)
ACTIONS = RNG.normal(size=600)
SCORES = RNG.random(900)
CLAIMS = tether.Claims(SCORES, RNG.random(900) < SCORES, np.arange(0, 901, 3))
DRAWS = tether.Proposals(-(ACTIONS**2) / 2, -((ACTIONS - 1) ** 2) / 2)
HOSTILE = "<script>alert(1)</script> $x_1"


def make_log(losses=1, reward=True):
    made = {f"loss {k}": 1.5 - 0.3 * k < ACTIONS for k in range(losses)}
    optimized = np.where(RNG.random(600) < 0.02, -np.inf, -((ACTIONS - 1) ** 2) / 2)
    given = made if losses > 1 else made["loss 0"]
    return tether.Log(given, -(ACTIONS**2) / 2, optimized, reward=ACTIONS if reward else None)


def require_clear(figure):
    assert figure_texts.overlaps(figure) == []
    assert figure_texts.cut_off(figure) == []


def points(axes, marker="o"):
    lines = [line for line in axes.lines if line.get_marker() == marker and len(line.get_xdata())]
    return [line.get_xydata()[0] for line in lines]


def test_two_texts_at_the_same_place_are_found():
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_title("the title", loc="left")
    axes.text(0.0, 1.01, "a label", transform=axes.transAxes)
    axes.text(0.9, 0.5, "a label that is far too long", transform=axes.transAxes)
    assert figure_texts.overlaps(figure) == [("a label", "the title")]
    assert figure_texts.cut_off(figure) == ["a label that is far too long"]


@pytest.mark.parametrize(
    "rule", [{"alpha": 0.15}, {"promise": 0.2}, {"alpha": 0.9}, {"alpha": 0.01}]
)
def test_a_calibration_shows_gain_against_loss_and_beta_at_its_risk(rule):
    found = tether.calibrate(make_log(), DRAWS, **rule)
    figure = found.plot()
    require_clear(figure)
    tradeoff, curve = figure.axes
    gain = found.gain
    for policy, marker in (("safe", "s"), ("tethered", "o"), ("optimized", "^")):
        loss, reward = getattr(gain.losses["loss"], policy), getattr(gain.reward, policy)
        assert points(tradeoff, marker) == [pytest.approx([loss.mean, reward.mean])]
        lines = [line.get_xydata().tolist() for line in tradeoff.lines]
        assert [[loss.lower, reward.mean], [loss.upper, reward.mean]] in lines
        assert [[loss.mean, reward.lower], [loss.mean, reward.upper]] in lines
    promised = [line for line in tradeoff.lines if line.get_linestyle() == "--"]
    assert [line.get_xdata()[0] for line in promised] == [found.binding.alpha]
    marked = points(curve)
    assert bool(marked) == bool(np.isfinite(found.log_beta))
    if marked:
        assert marked[0] == pytest.approx([found.log_beta, found.binding.risk])


def test_several_losses_share_a_scale_and_no_reward_shows_what_changes():
    found = tether.calibrate(make_log(2), alpha={"loss 0": 0.15, "loss 1": 0.3})
    figure = found.plot()
    require_clear(figure)
    texts = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert sum("limits beta" in text for text in texts) == 1
    without = tether.calibrate(make_log(reward=False), alpha=0.15)
    require_clear(without.plot())


@pytest.mark.parametrize(
    "options",
    [{}, {"groups": np.array([HOSTILE, "_b", "$"] * 100)}, {"loss": ["fdr", "any_false"]}],
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


def test_comparisons_of_calibrations_and_selections():
    log, rules = make_log(), ({"alpha": 0.15}, {"promise": 0.15})
    every = [tether.calibrate(log, DRAWS, **rule) for rule in rules]
    found = tether.compare(every)
    assert found.names == ("alpha 0.15", "promise 0.15")
    assert found.to_frame()["beta"].tolist() == [each.beta for each in every]
    every = [tether.gcrc(CLAIMS, alpha=0.2), tether.gcrc(CLAIMS, promise=0.2)]
    every.append(tether.thresholds.ltt(CLAIMS, alpha=0.2))
    found = tether.compare(every)
    frame = found.to_frame()
    assert frame["threshold"].tolist() == [each.threshold for each in every]
    assert frame["rule"].tolist() == ["alpha", "promise", "confidence"]
    for wrong, error in (([every[0], 3], TypeError), ([], ValueError), (every[0], TypeError)):
        with pytest.raises(error, match="results"):
            tether.compare(wrong)


def test_figures_need_no_pyplot_and_no_runs():
    code = (
        "import sys, numpy as np, tether; found = tether.gcrc(np.zeros((50, 3)), alpha=0.2); "
        "found.plot(); names = ('matplotlib.pyplot', 'tether.runs', 'sqlalchemy'); "
        "assert not any(name in sys.modules for name in names), names"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- notebooks ----------------------------------------------------------------------------------


def size(picture):
    """The width and height that a PNG states in its header."""
    assert picture.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", picture[16:24])


def test_figures_can_be_pickled_and_shown():
    figure = pickle.loads(pickle.dumps(tether.gcrc([[0.0, 0.0]] * 50, alpha=0.1).plot()))
    picture, shown = figure._repr_png_()
    assert size(picture) == (2 * shown["width"], 2 * shown["height"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.parametrize("first", ["", "import matplotlib.pyplot\n"], ids=["alone", "with pyplot"])
def test_a_notebook_shows_one_picture(first, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    found = "import numpy, tether\nfound = tether.gcrc(numpy.zeros((50, 3)), alpha=0.1)"
    cells = [nbformat.v4.new_code_cell(code) for code in (first + found, "found.plot()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    (output,) = notebook.cells[1].outputs
    width, height = size(base64.b64decode(output["data"]["image/png"]))
    assert width > height > 300


def test_cards_say_what_printing_says_load_nothing_and_escape_every_part():
    log = tether.Log({HOSTILE: ACTIONS > 1.5}, -(ACTIONS**2) / 2, -((ACTIONS - 1) ** 2) / 2)
    found = tether.calibrate(log, alpha={HOSTILE: 0.2})
    every = [found, found.gain, tether.compare({HOSTILE: found, "b": found})]
    every += [tether.gcrc(CLAIMS, alpha=0.2), tether.plan(alpha=0.1, safe_risk=0.05)]
    for result in filter(None, every):
        shown = result._repr_html_()
        assert "<script" not in shown
        assert not re.search(r"(?:src|href|url\(|http-equiv|@import|on\w+=)", shown)
        visible = unescape(re.sub(r"<[^>]+>", " ", shown)).split()
        assert set(str(result).splitlines()[0].split()) <= set(visible)
    table, facts = Columns({HOSTILE: np.array([HOSTILE])}), ((HOSTILE, HOSTILE),)
    made = Description(HOSTILE, "good", facts, HOSTILE, table, (HOSTILE,), (HOSTILE,))
    shown = summary_card(made)
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 8
    first_row = ElementTree.fromstring(shown).find(".//tr")
    assert [(each.tag, each.text) for each in first_row] == [("th", HOSTILE), ("td", HOSTILE)]
