"""Simulated ramps through the controller; `python -m benchmarks.ramp_validity` is the long version.

Losses that never arrive count as the bound. Where they are left out, the same measure sees that
alpha does not hold.
"""

from __future__ import annotations

import pytest
from benchmarks.ramp_validity import WORLDS, pending_left_out, simulate, verdict

from tests.scale import scaled

BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["few rows, greedy", "few rows, learned, against last"])
def test_the_mean_risk_of_every_step_is_within_alpha(name):
    world = BY_NAME[name]
    assert verdict(world, *simulate(world, scaled(10))).held


@pytest.mark.slow
def test_losses_that_never_arrive_do_not_break_alpha_but_leaving_them_out_does():
    world = BY_NAME["few rows, learned, losses missing"]
    assert verdict(world, *simulate(world, scaled(12))).held
    with pending_left_out():
        assert not verdict(world, *simulate(world, scaled(12))).held
