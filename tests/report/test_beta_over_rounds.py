from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.beta_over_rounds import beta_chart
from tether.report.number_format import format_number


def test_the_table_of_betas_has_the_values_of_the_run(name):
    records = example(name).rounds[::-1]
    figures = list(parse(rendered(name)).find_all("figure", id="chart-beta"))
    if not records:
        assert not figures
        return
    rows = next(figures[0].find_all("table")).rows()
    assert [row[2] for row in rows] == [format_number(record.beta) for record in records]


def test_zero_and_infinity_have_places_of_their_own():
    chart = beta_chart(example("infinite_then_no_beta"))
    texts = [node.text for node in parse(chart.draw("x-only", 500.0, 300.0, "x")).find_all("text")]
    assert {"0 (safe)", "∞ (optimized)"} <= set(texts)
    assert chart.tips == ["Round 1: beta 0", "Round 2: beta ∞", "Round 3: beta 0"]
