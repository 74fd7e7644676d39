"""The tables of a release."""

from tests.report.html_tree import parse
from tests.report.releases.example_releases import example, rendered
from tether.report.number_format import format_number
from tether.report.releases.release_sentences import format_term


def _section(name, part):
    (section,) = parse(rendered(name)).find_all("section", id=part)
    return section


def test_every_step_has_its_keys_promise_window_and_reason(name):
    history = example(name)
    rows = next(_section(name, "steps").find_all("table")).rows()
    assert len(rows) == len(history.steps)
    for row, step in zip(rows, history.steps[::-1], strict=True):
        assert row[0] == str(step.number)
        assert row[3:5] == [f"{step.new.rows:,}", f"{step.old.rows:,}"]
        assert row[-1] in (step.why, step.why.replace("\u202e", "\\u202e"))
        for cell, each in zip(row[5:-2], step.calibration.guardrails.values(), strict=True):
            promise, alpha = map(format_number, (each.promise, each.alpha))
            sum_of = [alpha, *map(format_term, (each.stability, each.existence))]
            stated = f"≤ {promise} = {' + '.join(sum_of)}"
            if step.stopped_by is not None:
                stated += f" until alarm {step.stopped_by}"
            assert cell == ("none" if step.share == 0 else stated)


def test_alarms_and_what_people_did():
    section = _section("active_alarm", "alarms")
    alarms, acts = (table.rows() for table in section.find_all("table"))
    assert [row[1:3] for row in alarms] == [["9", "risk"], ["4", "halt"]]
    assert alarms[0][5] == "▲ still active"
    assert [row[2:] for row in acts] == [
        ["bob", "resume", "it was none"],
        ["ann", "halt", "a rumour"],
    ]


def test_without_alarms_their_levels_are_named():
    text = _section("two_guardrails", "alarms").text
    assert "a risk of complaint above 0.075 or refund above 0.3" in text
    assert "Nobody has halted or resumed the release." in text
