from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.number_format import format_number


def test_the_table_of_sample_sizes_has_the_values_of_the_run(name):
    records = example(name).rounds[::-1]
    figures = list(parse(rendered(name)).find_all("figure", id="chart-effective"))
    calibrations = [record.calibration for record in records if record.calibration]
    if not calibrations:
        assert not figures
        return
    rows = next(figures[0].find_all("table")).rows()
    assert [row[1] for row in rows] == [
        format_number(calibration.effective_sample_size) for calibration in calibrations
    ]
