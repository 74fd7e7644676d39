"""The present step in one line."""

import numpy as np

import tether
from tether.cli.releases.step_text import step_text


def test_a_promise_with_confidence_is_named_as_such():
    log = {"x": np.zeros(5_000)}
    with tether.Release("sqlite://", {"x": 0.05}, old=log, confidence=0.9) as release:
        text = step_text(release.history())
    assert text.startswith("Step 1: the new system has ")
    assert text.endswith("Promised with confidence 0.9 at all steps: x ≤ 0.05")


def test_nothing_is_promised_without_a_share():
    with tether.Release("sqlite://", {"x": 0.05}) as release:
        text = step_text(release.history())
    assert text.startswith("Step 1: the old system answers all keys: ")
    assert "Promised" not in text
