"""`tether threshold --loss false_among_shown`, and candidates by `--thresholds`."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import tether
from tests.cli.command_line import one_line, run
from tether.cli.shown_share_options import threshold_grid

RNG = np.random.default_rng(3)
SCORES = RNG.random(4000)
TRUE = RNG.random(4000) < 0.3 + 0.7 * SCORES
ITEMS = np.repeat([f"q{i}" for i in range(1000)], 4)
GROUPS = np.repeat(["a", "b"], 2000)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "claims.csv"
    pyarrow.csv.write_csv(pa.table({"q": ITEMS, "s": SCORES, "t": TRUE, "g": GROUPS}), path)
    return path


COLUMNS = ("--score", "s", "--label", "t", "--item", "q")
SHOWN = ("--loss", "false_among_shown", "--most-claims", 4, "--thresholds", "0.3:0.8:11")


def test_the_command_finds_what_python_does_and_filter_applies_it(table, tmp_path):
    out = tmp_path / "found.json"
    done = run("threshold", table, *COLUMNS, *SHOWN, "--promise", 0.2, "--group", "g", "--out", out)
    assert done.exit_code == 0
    claims = tether.Claims.from_table(SCORES, TRUE, ITEMS, GROUPS)
    loss = tether.FalseAmongShown(0.2, most_claims=4)
    grid = np.linspace(0.3, 0.8, 11)
    expected = tether.gcrc(claims, grid, promise=0.2, loss=loss, groups=claims.groups)
    assert tether.Selection.load(out).to_dict() == expected.to_dict()
    new = ("--threshold", out, "--score", "s", "--group", "g", "--out", tmp_path / "kept.csv")
    text = one_line(run("filter", table, *new, "--loss", "false_among_shown"))
    assert "expected number of false claims shown, as a share of the expected number" in text


def test_how_many_items_are_needed_is_told_by_the_room_that_they_leave(table):
    most = ("--loss", "false_among_shown", "--most-claims", 400, "--thresholds", "0.3:0.8:11")
    done = run("threshold", table, *COLUMNS, *most, "--promise", 0.2)
    assert done.exit_code == 3
    shown = SCORES >= 0.8
    room = (0.2 * shown.sum() - (shown & ~TRUE).sum()) / 1000  # per item
    assert f"about {np.ceil(3 * 400 / room):,.0f} items are needed" in one_line(done)


def test_candidates_can_be_named_for_any_loss(table):
    grid = ("--thresholds", "0.3:0.8:11")
    done = run("threshold", table, *COLUMNS, *grid, "--promise", 0.2, "--json")
    claims = tether.Claims.from_table(SCORES, TRUE, ITEMS)
    expected = tether.gcrc(claims, np.linspace(0.3, 0.8, 11), promise=0.2)
    assert json.loads(done.stdout)["threshold"] == expected.threshold


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SHOWN[:2], "needs --promise"),
        ((*SHOWN[:2], "--promise", 0.1), "needs --most-claims"),
        ((*SHOWN[:4], "--promise", 0.1), "promise = 36 claims must be shown"),
        (("--most-claims", 4, "--promise", 0.1), "--most-claims is for --loss false_among_shown"),
        (("--thresholds", "0.9:0.4:11", "--promise", 0.1), "must be LOWEST:HIGHEST:COUNT"),
        (("--loss", "shown", "--promise", 0.1), "'false_among_shown', got 'shown'"),
    ],
)
def test_what_is_missing_is_named(table, options, message):
    target = () if "--promise" in options else ("--alpha", 0.1)
    done = run("threshold", table, *COLUMNS, *options, *target)
    assert done.exit_code == 2
    assert message in one_line(done)


def test_a_grid_can_be_listed_where_scores_are_crowded():
    assert threshold_grid("0.9, 0.99,0.999").tolist() == [0.9, 0.99, 0.999]
    for text in ("0.9,0.8", "0.9,0.9", "0.9,", "0.9,x", "0.9,inf"):
        with pytest.raises(ValueError, match="must list numbers in increasing order"):
            threshold_grid(text)


@pytest.mark.parametrize("text", ["", "0.1", "0.1:0.9", "a:b:c", "0:1:1", "0:inf:5", "0:1:5:6"])
def test_a_grid_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="--thresholds must be LOWEST:HIGHEST:COUNT"):
        threshold_grid(text)
