"""The curves of a selection as one table."""

import numpy as np

import tether

RNG = np.random.default_rng(3)
SCORES = RNG.random(600)
CLAIMS = tether.Claims(SCORES, RNG.random(600) < SCORES, np.arange(0, 601, 3))


def test_losses_and_groups_are_below_each_other():
    found = tether.gcrc(
        CLAIMS, alpha=[0.2, 0.5], loss=["fdr", "any_false"], groups=np.arange(200) % 2
    )
    table = found.to_frame()
    assert list(table) == ["group", "loss", "threshold", "risk", "kept"]
    for group, part in found.groups.items():
        for one in part.by_loss:
            mine = (table["group"] == group) & (table["loss"] == one.loss)
            np.testing.assert_array_equal(table["threshold"][mine], one.curve_thresholds)
            np.testing.assert_array_equal(table["risk"][mine], one.curve_risks)
            np.testing.assert_array_equal(table["kept"][mine], one.curve_kept)
    assert table.row_count == sum(
        len(one.curve_risks) for part in found.groups.values() for one in part.by_loss
    )
