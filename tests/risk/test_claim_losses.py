from fractions import Fraction

import numpy as np
import pytest

import tether
from tests.risk import brute_force
from tether.risk.claim_losses import CLAIM_LOSSES, claim_loss


def test_an_unknown_loss_is_named():
    claims = tether.Claims([0.1], [1], [0, 1])
    with pytest.raises(ValueError, match="loss must be one of 'fdr', 'any_false', 'miss', got 'f'"):
        tether.gcrc(claims, alpha=0.1, loss="f")
    with pytest.raises(ValueError, match="loss must be one of 'false_discovery'"):
        tether.gcrc(tether.ScoredLabels([0.1], [1]), alpha=0.1, loss="fdr")


@pytest.mark.parametrize("name", CLAIM_LOSSES)
@pytest.mark.parametrize("supported", [[1, 1, 0, 1], [0, 0], [1], [0, 1, 1]])
def test_the_loss_after_every_event_by_its_definition(name, supported):
    """One claim after another enters (or, where smaller is safer, leaves)."""
    loss = CLAIM_LOSSES[name]
    labels = np.array([supported], dtype=bool)
    count = len(supported)
    if loss.safer == "larger":
        item = [(-k, bool(true)) for k, true in enumerate(supported)]
        thresholds = [1, *range(0, -count, -1)]
    else:
        item = [(k, bool(true)) for k, true in enumerate(supported)]
        thresholds = range(count + 1)
    levels = [brute_force.LOSSES[name](item, t) for t in thresholds]
    assert loss.before(labels).tolist() == [float(levels[0])]
    assert loss.after(labels)[0].tolist() == pytest.approx([float(level) for level in levels[1:]])
    assert Fraction(levels[0]) == 0


def test_a_function_must_return_a_number():
    def nothing(supported, kept):
        return None

    with pytest.raises(TypeError, match="loss 'nothing' must return a number, got None"):
        claim_loss(nothing).before(np.ones((1, 2), dtype=bool))
