from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.calibrations_over_rounds import beta_chart
from tether.report.number_format import format_number


def test_tables_have_the_values_of_the_run(name):
    records = example(name).rounds[::-1]
    figures = {node.attributes["id"]: node for node in parse(rendered(name)).find_all("figure")}
    if not records:
        assert not figures
        return
    betas = next(figures["chart-beta"].find_all("table")).rows()
    assert [row[2] for row in betas] == [format_number(record.beta) for record in records]
    calibrations = [record.calibration for record in records if record.calibration]
    if calibrations:
        sizes = next(figures["chart-effective"].find_all("table")).rows()
        assert [row[1] for row in sizes] == [
            format_number(calibration.effective_sample_size) for calibration in calibrations
        ]


def test_zero_and_infinity_have_places_of_their_own():
    chart = beta_chart(example("infinite_then_no_beta"))
    texts = [node.text for node in parse(chart.draw("x-only", 500.0, 300.0, "x")).find_all("text")]
    assert {"0 (safe)", "∞ (optimized)"} <= set(texts)
    assert chart.tips == ["Round 1: beta 0", "Round 2: beta ∞", "Round 3: beta 0"]
