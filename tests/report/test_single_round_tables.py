from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.number_format import format_number
from tether.report.single_round_charts import calibrated_rounds
from tether.report.single_round_tables import near_in_words, risk_in_words, weights_in_words


def test_tables_have_the_values_of_the_calibrations(name):
    figures = {node.attributes["id"]: node for node in parse(rendered(name)).find_all("figure")}
    calibrations = [
        record.calibration for record in reversed(example(name).rounds) if record.calibration
    ]
    if not calibrations:
        assert "chart-curve" not in figures
        return
    weights = next(figures["chart-weights"].find_all("table")).rows()
    assert [row[-1] for row in weights] == [
        format_number(calibration.relative_weights[100]) for calibration in calibrations
    ]
    curve = next(figures["chart-curve"].find_all("table")).rows()
    assert [row[2] for row in curve] == [
        format_number(calibration.risk) for calibration in calibrations
    ]


def test_charts_of_a_finite_beta_in_words():
    (*_, last) = calibrated_rounds(example("ten_rounds").rounds)
    assert risk_in_words(last).endswith("; it meets alpha = 0.1 at beta = 0.765.")
    assert near_in_words(last).startswith(
        "Round 10, biopsy-model-10: from half of beta = 0.765 to twice beta, the calibrated risk"
    )
    assert "the heavier half of 1,650 rows carries " in weights_in_words(last)


def test_charts_of_other_betas_in_words():
    unrestricted, failing = calibrated_rounds(example("infinite_then_no_beta").rounds)
    assert risk_in_words(unrestricted).endswith("; every beta passes.")
    assert near_in_words(unrestricted) == "Round 2, biopsy-model-2: Beta is infinite."
    assert risk_in_words(failing).endswith("; no beta passes.")
    assert near_in_words(failing) == "Round 3, biopsy-model-3: No beta passes."
