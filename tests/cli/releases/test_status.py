"""`tether release status`."""

import json

import tether
from tests.cli.command_line import one_line, run
from tether.report import render


def test_release_status_shows_no_run_of_a_controller(tmp_path):
    path = tmp_path / "run.db"
    tether.Controller(tether.Gaussian(0.0), alpha=0.1, store=path).close()
    done = run("release", "status", path)
    assert done.exit_code == 2
    assert "holds the rounds of a controller: open it with tether.Controller" in one_line(done)


def test_nothing_is_promised_in_a_step_after_its_alarm(tmp_path):
    """As the service, its metrics and its dashboard say; before the alarm the promise held."""
    path = tmp_path / "release.db"
    with tether.Release(path, {"complaint": 0.5}, old={"complaint": [0.0] * 2_000}) as release:
        release.assign([f"a {each}" for each in range(60)])
        before = one_line(run("release", "status", path))
        release.halt("a rumour", actor="ann")
        halted = one_line(run("release", "status", path))
        page = render(release.history())
    assert "95% interval 1 0.5" in before
    assert "until alarm" not in before
    assert "1 0.5 until alarm 1" in halted
    assert '<span class="unbroken">until alarm 1</span>' in page


def test_the_json_has_the_words_of_a_release(tmp_path):
    path = tmp_path / "release.db"
    with tether.Release(path, {"complaint": 0.5}, promise=True) as release:
        release.halt("a rumour", actor="ann")
    found = json.loads(run("release", "status", path, "--json").stdout)
    assert found["limits"] == {"complaint": {"tolerated": 0.5, "bound": 1.0, "alarm_risk": 0.75}}
    assert found["alarms"][0]["step"] == 1
    assert "round" not in found["alarms"][0]


def test_halt_and_resume_speak_of_systems(tmp_path):
    path = tmp_path / "release.db"
    tether.Release(path, {"complaint": 0.5}).close()
    for name in ("halt", "resume"):
        assert "policy" not in one_line(run("release", name, "--help"))
    halted = run("release", "halt", path, "--reason", "a rumour", "--actor", "ann")
    assert "the old system answers all keys" in one_line(halted)
    resumed = run("release", "resume", path, "--reason", "over", "--actor", "ann")
    assert "The next key begins a new ramp" in one_line(resumed)
