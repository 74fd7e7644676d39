"""`tether plan`."""

import json

from tests.cli.command_line import one_line, run


def test_plan_prints_text_and_json():
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05)
    assert done.exit_code == 0
    assert "18 rows" in done.output
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05, "--rows", 500, "--json")
    assert json.loads(done.output)["betas"][0][0] == 500


def test_a_promise_as_the_target():
    done = run("plan", "--promise", 0.1, "--safe-risk", 0.05)
    assert done.exit_code == 0
    assert "rows to state this promise" in done.output
    for arguments in ([], ["--alpha", 0.1, "--promise", 0.1]):
        done = run("plan", "--safe-risk", 0.05, *arguments)
        assert done.exit_code == 2
        assert "exactly one of --promise and --alpha" in one_line(done)


def test_exit_code_three_when_no_number_of_rows_is_enough():
    for option in ("--alpha", "--promise"):
        done = run("plan", option, 0.1, "--safe-risk", 0.1)
        assert done.exit_code == 3
        assert "no number of rows is enough" in done.output
        done = run("plan", option, 0.1, "--safe-risk", 0.2, "--json")
        assert done.exit_code == 3
        assert json.loads(done.output)["rows_needed"] == "inf"


def test_the_family_is_chosen_and_stated():
    arguments = ("plan", "--safe-risk", 0.06, "--optimized-risk", 0.3, "--alpha", 0.12)
    assert "family clip" in one_line(run(*arguments))
    done = run(*arguments, "--family", "mix", "--max-ratio", 3)
    assert "family mix" in one_line(done)
    assert "ratios of at most 3" in one_line(done)
    done = run(*arguments, "--family", "clop")
    assert done.exit_code == 2
    assert "clop" in one_line(done)


def test_bad_input_is_one_line_and_exit_code_two():
    done = run("plan", "--alpha", 0, "--safe-risk", 0.1)
    assert done.exit_code == 2
    assert "alpha must be above 0" in one_line(done)


def test_the_probability_of_passing_is_not_called_confidence():
    arguments = ("plan", "--safe-risk", 0.05, "--alpha", 0.1, "--json")
    likely = json.loads(run(*arguments, "--pass-probability", 0.99).stdout)
    assert likely["pass_probability"] == 0.99
    assert likely["rows_likely"] > json.loads(run(*arguments).stdout)["rows_likely"]
    certified = json.loads(run(*arguments, "--confidence", 0.99).stdout)
    assert certified["pass_probability"] == 0.9
    assert certified["confidence"] == 0.99
    assert certified["rows_likely"] > likely["rows_likely"]


def test_a_confidence_is_planned_for_and_stated():
    done = run("plan", "--promise", 0.1, "--safe-risk", 0.05, "--confidence", 0.95)
    assert done.exit_code == 0
    assert "promise 0.1 with confidence 0.95" in one_line(done)
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05, "--confidence", 2)
    assert done.exit_code == 2
    assert "confidence must be above 0 and below 1" in one_line(done)


def test_a_file_is_refused_with_what_to_state_instead():
    done = run("plan", "decisions.csv", "--promise", 0.1)
    assert done.exit_code == 2
    assert "tether plan takes no file, got 'decisions.csv': state --safe-risk" in one_line(done)
    done = run("plan", "--promise", 0.1)
    assert done.exit_code == 2
    assert "--safe-risk is required" in one_line(done)
