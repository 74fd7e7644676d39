"""`tether report`."""

import re

import numpy as np

import tether
from tests.cli.command_line import one_line, run


def test_the_report_is_one_html_file_without_links(store, tmp_path):
    done = run("report", store, "-o", tmp_path / "report.html")
    assert done.exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(src|href)=.?https?:", page)


def test_the_report_of_a_release(tmp_path):
    path = tmp_path / "rollout.db"
    assert run("release", "start", path, "--guardrail", "complaint=0.02").exit_code == 0
    done = run("report", path, "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "How many keys does the new system answer?" in page
    assert run("report", path, "-o", tmp_path / "page.html").exit_code == 2
    assert run("report", path, "-o", path, "--force").exit_code == 2  # never over a store


def test_a_saved_calibration_is_told_to_be_no_store(tmp_path):
    path = tmp_path / "found.json"
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50))
    tether.calibrate(log, alpha=0.1).save(path)
    for command in ("report", "status"):
        done = run(command, path)
        assert done.exit_code == 2
        assert "found.json is a JSON file, such as a saved calibration, and not the store" in (
            one_line(done)
        )
        assert ".plot().savefig(" in one_line(done)
