"""What a step says beside its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.rounds.releases.verify_words import find_wrong_time, find_wrong_words

GUARDRAILS = {"harm": Guardrail(0.1), "delay": Guardrail(0.2)}


def share_with(old_total):
    counts = dict.fromkeys(GUARDRAILS, ArmCounts(200, old_total))
    return ramp_share(GUARDRAILS, old=counts, new=dict.fromkeys(GUARDRAILS, ArmCounts(0, 0.0)))


@pytest.mark.parametrize("old_total", [2.0, 30.0])
def test_the_words_of_a_share_as_it_was_computed_are_right(old_total):
    assert list(find_wrong_words("a step", share_with(old_total), None)) == []


def test_another_binding_guardrail_or_reason_is_wrong():
    share = share_with(30.0)
    assert share.share == 0
    (found,) = find_wrong_words("a step", replace(share, binding="delay"), None)
    assert found == "a step: it says that 'delay' binds its share, but 'harm' does"
    (found,) = find_wrong_words("a step", replace(share, reason="a person said so"), None)
    assert found.startswith(
        "a step: its reason is 'a person said so', but its numbers say 'the old"
    )
    assert list(find_wrong_words("a step", replace(share, reason="halted"), "halted")) == []
    assert len(list(find_wrong_words("a step", share, "halted"))) == 1


@pytest.mark.parametrize("begun", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00"])
def test_what_is_no_moment_of_a_time_zone_is_wrong(begun):
    assert len(list(find_wrong_time("a step", begun))) == 1
    assert list(find_wrong_time("a step", "2026-01-01T00:00:00+00:00")) == []
