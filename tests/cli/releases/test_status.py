"""`tether release status`."""

import tether
from tests.cli.command_line import one_line, run


def test_release_status_shows_no_run_of_a_controller(tmp_path):
    path = tmp_path / "run.db"
    tether.Controller(tether.Gaussian(0.0), alpha=0.1, store=path).close()
    done = run("release", "status", path)
    assert done.exit_code == 2
    assert "holds the rounds of a controller: open it with tether.Controller" in one_line(done)
