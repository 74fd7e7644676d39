"""The chart of the share over the steps."""

from tests.report.html_tree import parse
from tests.report.releases.example_releases import example, rendered
from tether.report.releases.release_sentences import format_share
from tether.report.releases.share_over_steps import share_chart


def test_the_table_has_the_shares_of_the_steps(name):
    steps = example(name).steps[::-1]
    (figure,) = parse(rendered(name)).find_all("figure", id="chart-share")
    rows = next(figure.find_all("table")).rows()
    assert [(row[0], row[2]) for row in rows] == [(str(step.number), step.why) for step in steps]
    for row, step in zip(rows, steps, strict=True):
        falls = step.stopped_by is not None and step.share > 0
        assert row[1].startswith(format_share(step.share))
        assert (row[1] != format_share(step.share)) == falls


def test_a_step_that_an_alarm_ended_says_how_many_keys_had_the_new_system():
    step = example("active_alarm").steps[-1]
    keys = f"{step.new.rows:,} of {step.new.rows + step.old.rows:,} keys had the new system"
    assert step.stopped_by is not None
    assert f", then {format_share(0.0)}: {keys}; " in share_chart(example("active_alarm")).tips[-1]


def test_dots_are_labeled_where_there_is_room_and_alarms_are_marked():
    history = example("active_alarm")
    chart = share_chart(history)
    wide = [node.text for node in parse(chart.draw("x-only", 1080, 330, "x")).find_all("text")]
    assert {format_share(step.share) for step in history.steps} <= set(wide)
    assert wide.count("alarm") == 2
    narrow = [node.text for node in parse(chart.draw("x-only", 360, 290, "x")).find_all("text")]
    assert format_share(history.steps[0].share) not in narrow
    assert "alarms in steps 4, 9" in chart.alternative
    assert chart.tips[0].startswith("Step 1: 0.961")
