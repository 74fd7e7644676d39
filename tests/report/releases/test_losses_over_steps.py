"""The chart of the losses of both systems."""

from tests.report.html_tree import parse
from tests.report.releases.example_releases import example, rendered
from tether.report.number_format import format_interval, format_number
from tether.report.releases.losses_over_steps import losses_chart


def test_the_table_has_the_means_and_intervals_of_both_systems():
    history = example("two_guardrails")
    for place, name in enumerate(history.limits):
        (figure,) = parse(rendered("two_guardrails")).find_all(
            "figure", id=f"chart-losses-{place + 1}"
        )
        rows = next(figure.find_all("table")).rows()
        assert [row[:2] for row in rows] == [
            [str(step.number), system] for step in history.steps[::-1] for system in ("new", "old")
        ]
        found = history.steps[-1].new.losses[name]
        shown = [f"{found.count:,}", format_number(found.mean), format_interval(found)]
        assert rows[0][2:] == shown


def test_a_system_without_keys_has_no_mean():
    chart = losses_chart(example("ramp"), "complaint")
    assert "old" not in chart.tips[-1]
    assert "old" in chart.tips[0]
    first_row = parse(chart.table).rows()[1]
    assert first_row == ["6", "old", "–", "–", "–"]


def test_alpha_is_drawn_and_named():
    chart = losses_chart(example("ramp"), "complaint")
    texts = [node.text for node in parse(chart.draw("x-only", 800, 300, "x")).find_all("text")]
    assert "alpha 0.02" in texts
    assert "compared with alpha = 0.02. Step 6: new" in chart.alternative


def test_without_losses_there_are_no_points():
    chart = losses_chart(example("started"), "complaint")
    assert not chart.tips
    assert chart.alternative.endswith("No losses yet.")
