"""`tether plan`."""

import json

from tests.cli.command_line import one_line, run


def test_plan_prints_text_and_json():
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05)
    assert done.exit_code == 0
    assert "18 rows" in done.output
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05, "--rows", 500, "--json")
    assert json.loads(done.output)["betas"][0][0] == 500


def test_bad_input_is_one_line_and_exit_code_two():
    done = run("plan", "--alpha", 0, "--safe-risk", 0.1)
    assert done.exit_code == 2
    assert "alpha must be above 0" in one_line(done)
