"""`tether report`."""

import re

from tests.cli.command_line import run


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
