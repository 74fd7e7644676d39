"""The chart of the share over the steps."""

from tests.report.html_tree import parse
from tests.report.releases.example_releases import example, rendered
from tether.report.releases.release_sentences import format_share
from tether.report.releases.share_over_steps import share_chart


def test_the_table_has_the_shares_of_the_steps(name):
    steps = example(name).steps[::-1]
    (figure,) = parse(rendered(name)).find_all("figure", id="chart-share")
    rows = next(figure.find_all("table")).rows()
    assert rows == [[str(step.number), format_share(step.share), step.why] for step in steps]


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
