"""CRC breaks alpha on losses that are not monotone, gCRC holds it, both as the closed form says."""

import numpy as np
import pytest
from experiments.nonmonotone.__main__ import World

PUBLISHED = {  # alpha 0.1 to 0.9
    "CRC": (0.247, 0.374, 0.477, 0.568, 0.649, 0.724, 0.791, 0.852, 0.908),
    "gCRC": (0.030, 0.070, 0.125, 0.189, 0.262, 0.343, 0.433, 0.533, 0.645),
}


@pytest.mark.parametrize("method", PUBLISHED)
def test_closed_form(method):
    exact = [World.of(tenths / 10, 10, 100).exact()[method] for tenths in range(1, 10)]
    assert np.round(exact, 3) == pytest.approx(PUBLISHED[method], abs=6e-4)


def test_closed_form_against_every_outcome_of_a_tiny_world():
    """Three thresholds, two items: all losses enumerated."""
    world = World(0.7, 2, np.array([0.0, 0.5, 1.0]), np.array([0.6, 0.3, 0.55]))
    expected = {"CRC": 0.0, "gCRC": 0.0}
    for code in range(16):
        coins = np.array([code >> bit & 1 for bit in range(4)]).reshape(2, 2)
        chance = np.prod(np.where(coins == 1, world.risk[:2], 1 - world.risk[:2]))
        bold, middle = (coins.sum(axis=0) + 1) / 3 <= 0.7
        picks = {
            "CRC": 0 if bold else 1 if middle else 2,
            "gCRC": 2 if not middle else 0 if bold else 1,
        }
        for method, pick in picks.items():
            expected[method] += chance * world.risk[pick]
    assert world.exact() == pytest.approx(expected)
