"""`tether release advance`."""

import json

import numpy as np

import tether
from tests.cli.command_line import one_line, run
from tests.cli.releases.conftest import KEYS
from tether.rounds import read_release


def test_the_next_step_has_the_share_of_the_rows_so_far(store):
    with tether.Release(store) as release:
        release.assign(KEYS)
        release.observe(KEYS, {"complaint": np.zeros(300), "latency": np.zeros(300)})
    done = run("release", "advance", store)
    assert done.exit_code == 0
    last = read_release(store).steps[-1]
    assert last.number == 2
    assert f"Step 2: the new system has {last.share:.3%} of the keys" in done.output
    assert "rows of step 1; limited by" in done.output
    content = json.loads(run("release", "advance", store, "--json").output)
    assert (content["number"], content["share"]) == (3, last.share)


def test_the_exit_code_says_that_the_old_system_answers_all_keys(store, tmp_path):
    begun = run("release", "start", tmp_path / "a.db", "--guardrail", "x=0.1")
    assert begun.exit_code == 0
    assert "all keys: this step collects rows of the old system; the new one" in one_line(begun)
    done = run("release", "advance", tmp_path / "a.db")
    assert done.exit_code == 3
    assert "Step 2: the old system answers all keys: there are no rows of the" in one_line(done)
    assert run("release", "halt", store, "--reason", "a fire").exit_code == 0
    done = run("release", "advance", store)
    assert done.exit_code == 4
    assert "alarm 1 stood when the step began" in done.output


def test_steps_that_end_by_themselves_are_not_ended_by_hand(tmp_path):
    options = ["--guardrail", "x=0.1", "--keys-per-step", 50]
    assert run("release", "start", tmp_path / "a.db", *options).exit_code == 0
    done = run("release", "advance", tmp_path / "a.db")
    assert done.exit_code == 2
    assert "the steps of this release end by themselves, after 50 keys" in one_line(done)
    assert run("release", "advance", tmp_path / "no.db").exit_code == 2
