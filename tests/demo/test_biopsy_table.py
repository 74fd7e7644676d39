import sys

from tether.demo.biopsy_table import print_table


def test_the_table_is_printed_without_rich_too(demo_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    lines = []
    print_table(demo_run.outcomes, 6, lines.append)
    assert lines[0].startswith("Of 100 patients, over 6 random splits (± one standard error")
    assert any(line.startswith("tether, clip") for line in lines)
