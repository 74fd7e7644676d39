"""A release in words and as a table."""

import math

import pytest

from tests.report.releases.example_releases import example


def in_one_line(found):
    return " ".join(str(found).split())


def test_one_row_per_step():
    history = example("ramp")
    table = history.to_frame()
    assert table["step"].tolist() == [step.number for step in history.steps]
    assert table["share"].tolist() == [step.share for step in history.steps]
    assert table["why"].tolist() == [step.why for step in history.steps]
    for row, step in enumerate(history.steps):
        for system in ("old", "new"):
            record = getattr(step, system)
            assert table[f"{system}_keys"][row] == record.rows
            found, drawn = record.losses.get("complaint"), table[f"{system}_loss"][row]
            assert math.isnan(drawn) if found is None else drawn == found.mean
        assert table["promise"][row] == step.calibration.promises["complaint"]


def test_several_guardrails_have_a_column_each():
    table = example("two_guardrails").to_frame()
    for name in ("promise", "new_loss", "old_loss", "new_loss_lower"):
        base, _, end = name.partition("_lower")
        assert f"{base}[refund]{'_lower' if name.endswith('_lower') else end}" in table


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ramp", ["the new system answers", "% of the keys", "complaint: alpha 0.02"]),
        ("started", ["step 1: the old system answers all keys", "none applies"]),
        ("active_alarm", ["since an alarm", "! alarm of the"]),
        ("two_guardrails", ["complaint: promise 0.05", "refund: promise 0.2, of losses up to 2"]),
    ],
)
def test_a_release_in_words(name, words):
    text = in_one_line(example(name))
    for each in words:
        assert each in text


def test_the_shown_table_has_a_row_for_each_step_and_guardrail():
    history = example("two_guardrails")
    shown = history._describe().table
    assert shown.row_count == 2 * len(history.steps)
    assert shown["guardrail"].tolist() == ["complaint", "refund"] * len(history.steps)
    for row in range(shown.row_count):
        step, name = history.steps[row // 2], shown["guardrail"][row]
        assert shown["promise"][row] == step.calibration.promises[name]
        assert shown["new keys"][row] == step.new.rows
        found, drawn = step.old.losses.get(name), shown["old loss"][row]
        assert math.isnan(drawn) if found is None else drawn == found.mean
    assert "guardrail" not in example("ramp")._describe().table


@pytest.mark.parametrize("name", ["ramp", "two_guardrails", "active_alarm"])
def test_the_shown_table_has_words_for_headers_and_is_below_80_columns(name):
    shown = example(name)._describe().table
    assert not any(sign in header for header in shown for sign in "_[]")
    assert max(map(len, str(shown).splitlines())) < 80


def test_the_promise_is_stated_without_the_share():
    history = example("ramp")
    promised = dict(history._describe().facts)["promise"]
    value = history.steps[-1].calibration.promises["complaint"]
    assert promised == f"complaint ≤ {value:.3g}, in expectation"
