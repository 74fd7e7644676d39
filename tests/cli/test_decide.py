"""`tether decide`: a table in, a decision and a file out."""

import pandas as pd
from typer.testing import CliRunner

import tether
from tests.policies import test_decision as shop
from tether.cli.app import app

NAMES = ("--action", "banner", "--loss", "left", "--context", "segment", "--propensity", "p")
ORDER = [text for banner in shop.BANNERS for text in ("--actions", banner)]


def rule(table):
    return shop.new_rule(table["segment"])


def run(folder, *options):
    shop.month(2000, shop.np.random.default_rng(0)).to_csv(folder / "shop.csv", index=False)
    return CliRunner().invoke(app, ["decide", str(folder / "shop.csv"), *NAMES, *options])


def test_a_decision_is_shown_and_saved(tmp_path):
    saved = ("--out", str(tmp_path / "served"))
    asked = ("--new", f"{__name__}:rule", "--promise", "0.23", "--family", "clip")
    done = run(tmp_path, *asked, *saved, *ORDER)
    assert done.exit_code == 0, done.output
    assert "Follow the new policy" in done.output
    found = tether.load(tmp_path / "served", allow_imports=[__name__])
    some = pd.DataFrame({"segment": ["new", "member"]})
    assert len(found.decide(some, shop.np.random.default_rng(0)).actions) == 2


def test_a_no_has_its_own_exit_code_and_everything_missing_is_said_at_once(tmp_path):
    assert run(tmp_path, "--new", f"{__name__}:rule", "--promise", "0.1", *ORDER).exit_code == 3
    done = run(tmp_path)
    assert (done.exit_code, "--promise" in done.output, "--new" in done.output) == (2, True, True)
