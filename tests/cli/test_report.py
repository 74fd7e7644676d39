"""`tether report`."""

import re

from tests.cli.command_line import run


def test_the_report_is_one_html_file_without_links(store, tmp_path):
    done = run("report", store, "-o", tmp_path / "report.html")
    assert done.exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(src|href)=.?https?:", page)
