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
