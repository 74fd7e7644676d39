"""Results of a preflight print, save and load."""

import numpy as np
import pytest

from tether.llm import Check, Cost, Preflight

CHECKS = (
    Check("same ends", "pass", 1.0, "end tokens [0] for both", "make them equal"),
    Check("mean ratio", "warn", np.inf, "inf", "few draws"),
)
RESULT = Preflight(CHECKS, (Cost("clip", 0.1, 0.5, np.inf), Cost("mix", 0.1, 1.0, 1.0)), 2, 8)


@pytest.mark.parametrize("record", [RESULT, *CHECKS, *RESULT.costs])
def test_a_record_prints_saves_and_loads(record, tmp_path):
    record.save(tmp_path / "record.json")
    assert type(record).load(tmp_path / "record.json") == record
    assert str(record) == record.summary()


def test_a_record_of_another_kind_is_refused(tmp_path):
    CHECKS[0].save(tmp_path / "check.json")
    with pytest.raises(ValueError, match="expected a saved 'preflight'"):
        Preflight.load(tmp_path / "check.json")


def test_plain_values_say_whether_it_passed():
    assert RESULT.passed
    assert RESULT.to_dict()["passed"]
    failed = Preflight((Check("same ends", "fail", 0.0, "different"),), (), 2, 8)
    assert not failed.passed
    assert not failed.to_dict()["passed"]
    assert CHECKS[0].to_dict()["measured"] == "end tokens [0] for both"


def test_the_summary_has_a_table_of_checks_and_costs():
    lines = RESULT.summary().splitlines()
    assert lines[0] == "preflight on 2 prompt(s), 8 draws of each policy: 1 pass, 1 warn, 0 fail"
    assert lines[1:3] == ["  pass  same ends", "        end tokens [0] for both"]
    assert lines[5].strip() == "→ few draws"
    assert "make them equal" not in RESULT.summary(), "advice is for checks that did not pass"
    assert lines[6].split() == ["family", "beta", "acceptance", "draws", "per", "action"]
    without_costs = Preflight(CHECKS, (), 2, 8)
    assert "family" not in without_costs.summary()


@pytest.mark.parametrize(
    ("nats", "advice"),
    [
        (1.0, "at 1 nats per answer: near enough for every family: clip takes up to 7.3 draws"),
        (8.0, "at 8 nats per answer: clip takes up to 7.3 draws per answer; mix passes hardly any"),
        (18.0, "at 18 nats per answer: too far for clip and mix, which hardly move: use best of N"),
    ],
)
def test_the_last_line_says_which_family_fits_the_distance(nats, advice):
    divergence = Check("KL(optimized ‖ safe)", "pass", nats, f"{nats} nats")
    result = Preflight((*CHECKS, divergence), (Cost("clip", 1.0, 0.14, 7.3),), 2, 8)
    assert result.advice.startswith(advice)
    assert f"→ {advice}" in " ".join(result.summary().split())
    assert max(map(len, result.summary().splitlines())) < 80
    assert RESULT.advice == ""


def test_a_status_is_one_of_three():
    with pytest.raises(ValueError, match="status must be one of 'pass', 'warn', 'fail', got 'ok'"):
        Check("same ends", "ok", 1.0, "")
