import dataclasses

from tests.report import example_histories
from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.chart_canvas import matplotlib_defaults
from tether.report.number_format import format_interval, format_number
from tether.report.risk_over_rounds import realized_risk_chart
from tether.rounds.history import Estimate
from tether.rounds.limits import Limit


def test_the_table_of_realized_risk_has_the_values_of_the_run(name):
    history = example(name)
    figures = list(parse(rendered(name)).find_all("figure", id="chart-risk"))
    records = [record for record in reversed(history.rounds) if record.losses]
    if not records:
        assert not figures
        return
    rows = next(figures[0].find_all("table")).rows()
    assert [row[:4] for row in rows] == [
        [
            str(record.number),
            f"{record.losses.get('loss').count:,}",
            format_number(record.losses["loss"].mean),
            format_interval(record.losses["loss"]),
        ]
        for record in records
    ]
    for row, record in zip(rows, records, strict=True):
        expected = "at most alpha"
        if record.losses["loss"].mean > history.limits["loss"].alpha:
            expected = "above alpha, interval includes alpha"
        if record.losses["loss"].lower > history.limits["loss"].alpha:
            expected = "clearly above alpha"
        assert row[4] == expected


def test_realized_risk_in_words():
    (figure,) = parse(rendered("ten_rounds")).find_all("figure", id="chart-risk")
    alternatives = {node.attributes["aria-label"] for node in figure.find_all("svg")}
    losses = [(record.number, record.losses["loss"]) for record in example("ten_rounds").rounds]
    above = ", ".join(str(number) for number, loss in losses if loss.mean > 0.1)
    assert alternatives == {
        f"Realized risk of 10 rounds compared with alpha = 0.1. The mean is above alpha in rounds "
        f"{above}; the whole interval is above alpha in round 6."
    }
    assert realized_risk_chart(example("one_safe_round"), "loss").alternative.endswith(
        "No mean is above alpha."
    )


def test_only_a_few_alarms_are_labeled():
    history = example("one_safe_round")
    for count, labeled in ((3, True), (9, False)):
        alarms = [
            example_histories.Alarm(number, number, "risk", "too high", "then", "now")
            for number in range(count)
        ]
        chart = realized_risk_chart(dataclasses.replace(history, alarms=tuple(alarms)), "loss")
        drawing = parse(chart.draw("x-only", 500.0, 300.0, "x"))
        assert ("alarm" in [node.text for node in drawing.find_all("text")]) == labeled


def test_losses_of_the_largest_size_can_be_drawn():
    history = example("ten_rounds")
    size = 1e308
    rounds = [
        dataclasses.replace(record, losses={"loss": Estimate(5, 0.2 * size, 0.1 * size, size)})
        for record in history.rounds
    ]
    large = dataclasses.replace(
        history, rounds=tuple(rounds), limits={"loss": Limit(0.1 * size, size, 0.15 * size)}
    )
    with matplotlib_defaults():
        figure = realized_risk_chart(large, "loss").figure()
    assert "in units of 1e+100" in figure
    assert "alpha 1e307" in figure
    assert "above alpha, interval includes alpha" in figure
