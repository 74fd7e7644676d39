"""The figures of the overview are those of the experiment's page."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "comparison"


def _rows(page):
    """The cells of each row of the tables of a page, without marks and standard errors."""
    for line in (PAGES / page).read_text("utf-8").splitlines():
        if line.startswith("|"):
            cells = (re.sub(r" ±.*|\*", "", cell.strip()) for cell in line.strip("|").split("|"))
            yield tuple(cells)


def test_every_measured_figure_is_in_the_table_of_the_experiment():
    measured = {(row[0], *row[3:6]) for row in _rows("peers.md") if len(row) == 9}
    shown = [row for row in _rows("index.md") if len(row) == 6 and row[3].startswith("0")]
    assert len(shown) > 10
    task = ""
    for row in shown:
        task = row[0] or task
        assert (task, *row[3:6]) in measured, row
