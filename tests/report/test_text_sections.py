from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse


def test_the_table_of_all_rounds_has_the_counts_of_the_run(name):
    records = example(name).rounds
    sections = list(parse(rendered(name)).find_all("section", id="rounds"))
    if not records:
        assert not sections
        return
    rows = next(sections[0].find_all("table")).rows()
    assert [[int(cell.replace(",", "")) for cell in row[8:15]] for row in rows] == [
        [
            record.rows,
            record.safe_rows,
            record.fallback_rows,
            record.calibration_rows,
            record.observed,
            record.pending,
            record.withdrawn,
        ]
        for record in reversed(records)
    ]


def test_alarms_are_listed_with_what_became_of_them():
    (section,) = parse(rendered("active_alarm")).find_all("section", id="alarms")
    latest, first = next(section.find_all("table")).rows()
    assert latest[2:4] == ["shift", "the distribution of contexts has changed"]
    assert latest[5:] == ["▲ still active", "–"]
    assert first[6] == "a faulty scanner"
    (section,) = parse(rendered("one_safe_round")).find_all("section", id="alarms")
    assert "A risk monitor raises an alarm if the risk is above 0.12." in section.text


def test_missing_losses_are_explained():
    (section,) = parse(rendered("ten_rounds")).find_all("section", id="rounds")
    assert "86 losses are pending (in round 10), and 4 rows were withdrawn" in section.text


def test_every_assumption_has_a_status():
    (items,) = parse(rendered("ten_rounds")).find_all("ul", **{"class": "assumptions"})
    statuses = [next(item.find_all("span")).text for item in items.find_all("li")]
    assert set(statuses) == {"✓ checked", "◐ partly checked", "○ assumed"}
