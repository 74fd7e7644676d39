"""`tether release start`."""

import json
from datetime import timedelta

import pytest

import tether
from tests.cli.command_line import one_line, run
from tether.release import ArmCounts
from tether.rounds import read_release

GUARDRAIL = ("--guardrail", "complaint=0.02")


def test_a_release_is_created_with_its_settings(tmp_path, old):
    path = tmp_path / "new.db"
    done = run(
        "release", "start", path, "--guardrail", "complaint=0.05", "--guardrail", "latency=0.1:2.0",
        "--old", old, "--keys-per-step", 50, "--wait", 2, "--max-silence", "12h",
        "--alarm-risk", "complaint=0.2", "--salt", "00ff",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Step 1: the new system has" in done.output
    assert "complaint ≤ 0.05" in done.output
    with tether.Release(path) as release:
        settings = release.settings
    assert settings.limits["complaint"].alpha == 0.05
    assert settings.limits["complaint"].alarm_risk == 0.2
    assert (settings.limits["latency"].alpha, settings.limits["latency"].bound) == (0.1, 2.0)
    assert (settings.keys_per_step, settings.wait, settings.salt) == (50, 2, "00ff")
    assert settings.old_log["complaint"] == ArmCounts(1_000, 10.0)
    assert settings.old_log["latency"].total == pytest.approx(10.0)


def test_it_is_what_the_class_makes_of_the_same_arguments(tmp_path):
    options = ["--confidence", "0.9", "--step-duration", "1.5h", "--max-silence", "70"]
    assert run("release", "start", tmp_path / "a.db", *GUARDRAIL, *options).exit_code == 0
    with tether.Release(
        tmp_path / "a.db",  # raises if these settings are not the ones of the store
        {"complaint": 0.02},
        confidence=0.9,
        step_duration=timedelta(hours=1.5),
        max_silence=70,
    ):
        pass
    done = run("release", "start", tmp_path / "b.db", *GUARDRAIL, "--promise")
    assert done.exit_code == 0
    assert read_release(tmp_path / "b.db").target == "promise"
    assert "the old system answers all keys" in done.output


def test_the_same_settings_again_continue_and_others_are_refused(store, old):
    both = ["--guardrail", "complaint=0.05", "--guardrail", "latency=0.1:2.0"]
    shares = [
        json.loads(run("release", "start", store, *both, *log, "--json").output)["share"]
        for log in ([], ["--old", old])
    ]
    assert shares == [read_release(store).share] * 2
    done = run("release", "start", store, *both, "--wait", 1)
    assert done.exit_code == 2
    assert "You asked for: complaint with alpha 0.05, latency with alpha 0.1 of losses" in one_line(
        done
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--guardrail'"),
        (["--guardrail", "x"], "--guardrail must be NAME=ALPHA or NAME=ALPHA:BOUND, got 'x'"),
        (["--guardrail", "x=much"], "--guardrail 'x=much': 'much' is not a number"),
        (["--guardrail", "x=0.1:"], "--guardrail 'x=0.1:': '' is not a number"),
        (["--guardrail", "x=2"], "--guardrail['x']: alpha must be above 0 and below 1, got 2.0"),
        ([*GUARDRAIL, *GUARDRAIL], "--guardrail names 'complaint' twice"),
        ([*GUARDRAIL, "--confidence", "2"], "--confidence must be above 0 and below 1, got 2.0"),
        ([*GUARDRAIL, "--confidence", "0.9", "--promise"], "leave out --promise"),
        ([*GUARDRAIL, "--keys-per-step", "0"], "--keys-per-step must be an integer of at least 1"),
        (
            [*GUARDRAIL, "--keys-per-step", "5", "--step-duration", "1h"],
            "give --keys-per-step or --step-duration, not both",
        ),
        ([*GUARDRAIL, "--step-duration", "0.5"], "--step-duration must be at least 1"),
        ([*GUARDRAIL, "--step-duration", "1y"], "--step-duration must be a number of seconds"),
        ([*GUARDRAIL, "--wait", "-1"], "--wait must be an integer of at least 0, got -1"),
        ([*GUARDRAIL, "--alarm-risk", "b=0.3"], "--alarm-risk must name guardrails"),
        ([*GUARDRAIL, "--alarm-risk", "complaint=3"], "--alarm-risk['complaint'] must be above 0"),
        ([*GUARDRAIL, "--max-silence", "0"], "--max-silence must be an integer of at least 1"),
        ([*GUARDRAIL, "--max-silence", "long"], "--max-silence must be a number of rows"),
        ([*GUARDRAIL, "--salt", "xx"], "--salt must be bytes in hexadecimal, got 'xx'"),
        ([*GUARDRAIL, "--salt", ""], "--salt must have 1 to 64 bytes"),
        ([*GUARDRAIL, "--old", "nothing.csv"], "there is no file nothing.csv"),
        ([*GUARDRAIL, "--max-rows", "4"], "--max-rows is for the file that --old names"),
    ],
)
def test_wrong_options_are_named_in_one_line_and_create_nothing(tmp_path, options, message):
    done = run("release", "start", tmp_path / "new.db", *options)
    assert done.exit_code == 2
    assert message in one_line(done)
    assert "Missing" in message or len(done.output.splitlines()) == 1
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("latency\n0.1\n", "must have one column 'complaint', got ['latency']"),
        ("complaint\n0\n2\n", "--old['complaint'] must be one loss in [0, 1] per key"),
        ("complaint\n200\n503\n", "are these HTTP statuses? Write 1 for one that is a failure"),
        ("complaint\n0\n98.5\n", "with values up to 98.5: are these percentages? 5 % is 0.05"),
        ("complaint\nyes\nno\n", "write 1 for the word that means harm"),
        ("complaint\nno\n", "column 'complaint' must hold numbers"),
        ("complaint\n", "has no rows"),
        (
            "key,complaint\nann,0\nbob,1\nbob,0\nann,0\nbob,0\n",
            "must have one row for each key, and 3 of its 5 rows repeat one; the first is 'bob'",
        ),
        ("key,complaint\n7,0\n8,0\n7,1\n", "1 of its 3 rows repeat one; the first is '7'"),
    ],
)
def test_a_wrong_log_of_the_old_system(tmp_path, content, message):
    (tmp_path / "old.csv").write_text(content)
    log = ["--old", tmp_path / "old.csv"]
    done = run("release", "start", tmp_path / "new.db", *GUARDRAIL, *log)
    assert done.exit_code == 2
    assert message in one_line(done)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    ("losses", "advice"),
    [([0] * 11, "more rows of the old system are needed"), ([1] * 99, "are losses inverted?")],
)
def test_an_old_system_that_does_not_pass_is_exit_code_3(tmp_path, losses, advice):
    (tmp_path / "old.csv").write_text("\n".join(["complaint", *map(str, losses), ""]))
    start = ["release", "start", tmp_path / "new.db", *GUARDRAIL, "--promise"]
    for options in (["--old", tmp_path / "old.csv"], []):  # again: it continues
        done = run(*start, *options)
        assert done.exit_code == 3
        assert "a promise of 0.02 takes at least 157 rows even without any loss" in one_line(done)
        assert advice in one_line(done)
        assert "another store" in one_line(done)


@pytest.mark.filterwarnings("always::tether.AssumptionWarning")
def test_outcomes_that_the_log_lacks_are_named(tmp_path):
    (tmp_path / "old.csv").write_text("\n".join(["complaint", *"0" * 999, "nan", ""]))
    start = ["release", "start", tmp_path / "new.db", *GUARDRAIL, "--old", tmp_path / "old.csv"]
    done = run(*start)
    assert done.exit_code == 0
    assert (
        "old['complaint'] has 1,000 rows, 1 of them without an outcome (counted as 1): an empty "
        "value or NaN is no outcome"
    ) in one_line(done)
    assert read_release(tmp_path / "new.db").steps[0].calibration.guardrails["complaint"].old == (
        ArmCounts(1_000, 0.0, 1)
    )


@pytest.mark.filterwarnings("always::tether.PromiseWarning")
def test_a_first_step_that_is_likely_to_be_the_last_is_named(tmp_path):
    start = ["release", "start", tmp_path / "new.db", *GUARDRAIL, "--promise"]
    done = run(*start, "--keys-per-step", 1_000)
    assert done.exit_code == 0
    assert "keys_per_step = 1,000 may be too few for the first step" in one_line(done)
    assert "1,600 keys pass in 95 % of releases" in one_line(done)


@pytest.mark.parametrize("keys", [("ann", "bob", "", ""), ("7", "007", "", ""), ("", "", "", "")])
def test_a_log_whose_keys_do_not_repeat_may_have_rows_without_one(tmp_path, keys):
    rows = [f"{key},0" for key in keys]
    (tmp_path / "old.csv").write_text("\n".join(["key,complaint", *rows, ""]))
    log = ["--guardrail", "complaint=0.5", "--old", tmp_path / "old.csv"]
    done = run("release", "start", tmp_path / "new.db", *log)
    assert done.exit_code == 0, done.output


def test_a_password_is_not_shown():
    done = run("release", "start", "postgresql://u:s3cret@h:p/d", *GUARDRAIL)
    assert done.exit_code == 2
    assert "s3cret" not in done.output


def test_a_promise_with_a_value_is_told_where_the_number_stands(tmp_path):
    done = run("release", "start", tmp_path / "new.db", *GUARDRAIL, "--promise=0.02")
    assert done.exit_code == 2
    words = " ".join(done.output.replace("│", " ").split())
    assert "--promise takes no value, got '--promise=0.02': the number stands in" in words
    assert not (tmp_path / "new.db").exists()
