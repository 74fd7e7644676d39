"""The engine against the definition, evaluated directly at every point of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.worlds import KINDS, Geometric, World, make_world, table_log
from tests.scale import scaled
from tether.control.calibrate import _constraints, calibrate
from tether.control.engine import COARSE, PARTS, fine_points, search
from tether.control.families import find_family
from tether.control.log import Log, Proposals
from tether.control.pose import pose

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")

CASES = {
    "seed": st.integers(0, 10**6),
    "kind": st.sampled_from(KINDS),
    "mixture": st.booleans(),
    "losses": st.integers(1, 2),
    "wide": st.sampled_from([0.3, 1.0, 6.0]),
}
ANALYTIC = ("clip", "tables", "draws")


def by_definition(world: World, keep=slice(None)):
    """The last coarse point before the first that fails, then the last fine one in that gap."""
    grid = np.append(world.more["t"], np.inf) if world.kind == "path" else COARSE
    near = (grid > -60) & (grid < 60)  # past all ratios nothing changes
    grid = np.concatenate((grid[:1], grid[near], grid[-1:])) if world.kind != "path" else grid
    last: dict[str, int] = {}
    for place, log_beta in enumerate(grid):
        passes = world.passes(log_beta, keep)
        last |= {name: place - 1 for name in passes if not passes[name] and name not in last}
        if len(last) == len(passes):
            break
    found = {}
    for name in world.losses:
        at = last.get(name, len(grid))
        found[name] = np.inf if at == len(grid) else -np.inf if at < 0 else grid[at]
        if np.isfinite(found[name]) and world.kind != "path":
            gap = int(np.searchsorted(COARSE, found[name]))
            for point in fine_points(np.array([gap]))[0][1:]:
                if not world.passes(point, keep)[name]:
                    break
                found[name] = point
    return found


@settings(max_examples=scaled(85), deadline=None)
@given(**CASES, analytic=st.booleans())
def test_beta_is_that_of_the_definition(seed, kind, mixture, losses, wide, analytic):
    """The analytic test weight is that of an infinite ratio."""
    if kind == "own":
        wide = min(wide, 1.0)
    world = make_world(seed, kind, mixture=mixture, losses=losses, wide=wide)
    if analytic and kind in ANALYTIC:
        world.test_weight = "analytic"
    found = world.calibrate()
    expected = by_definition(world)
    assert {name: each.log_beta for name, each in found.losses.items()} == expected
    assert found.log_beta == found.binding.log_beta == min(expected.values())


@settings(max_examples=scaled(25), deadline=None)
@given(**CASES)
def test_what_is_measured_is_what_the_weights_say(seed, kind, mixture, losses, wide):
    world = make_world(seed, kind, mixture=mixture, losses=losses, wide=min(wide, 1.0))
    world.ratio_error = 1.2
    found = world.calibrate()
    log_beta = found.log_beta
    log_beta = float(np.clip(log_beta, -1000, 1000)) if kind != "path" else log_beta
    weights, test = world.weights(log_beta), world.test(log_beta)
    measured = found.measured
    assert measured.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    largest = max(weights.max(), test) / (weights.sum() + test)
    assert measured.max_weight == pytest.approx(largest, rel=1e-2 if kind == "mix" else 1e-9)
    for name, each in found.losses.items():
        loss = world.losses[name]
        factor = np.where(loss > each.alpha, 1.2, 1 / 1.2)
        above = (factor * weights * loss).sum() + 1.2 * each.bound * test
        risk = above / ((factor * weights).sum() + 1.2 * test)
        assert each.risk == pytest.approx(risk, rel=1e-2 if kind == "mix" else 1e-9)


@settings(max_examples=scaled(25), deadline=None)
@given(**CASES)
def test_blocks_of_any_size_give_the_same_result(seed, kind, mixture, losses, wide):
    world = make_world(seed, kind, mixture=mixture, losses=losses, wide=wide)
    log, whole = world.log(), world.calibrate()
    constraints = _constraints(log, "alpha", world.alphas, world.bounds, None)
    family = find_family(world.family)
    problem, _ = pose(log, world.proposals(), family, "empirical", 0.01, constraints)
    problem.kernel.size = 3
    assert search(problem).largest() == {n: each.log_beta for n, each in whole.losses.items()}


@pytest.mark.parametrize("kind", ["clip", "mix", "tables"])
def test_ratios_of_hundreds_of_nats(kind):
    for seed in range(20):
        world = make_world(seed, kind, wide=90.0 if kind == "tables" else 150.0)
        grid = {each: world.passes(each)["harm"] for each in (-1000.0, 1000.0)}
        found = world.calibrate()
        if kind != "mix":  # whose first and last betas are not the ends of its ratios
            assert found.exists == grid[-1000.0]
        if np.isfinite(found.log_beta):
            assert world.passes(found.log_beta)["harm"]
            beyond = found.log_beta + np.diff(COARSE).max()
            grid = fine_points(np.arange(len(COARSE) - 1)).ravel()
            later = grid[(grid > found.log_beta) & (grid <= beyond)]
            assert not all(world.passes(each)["harm"] for each in later)


def test_rows_of_a_policy_that_is_800_nats_away_count():
    far = np.array([[0.0] * 9 + [-800.0], [-800.0] * 9 + [0.0]])
    log_mix = np.logaddexp(*far) - np.log(2)
    draws = Proposals(*far[:, 9:], log_mix=log_mix[9:])  # e^−800 is no float
    found = calibrate(Log(far[0] < 0, *far, log_mix=log_mix), draws, alpha=0.3)
    assert found.log_beta == 0.65625


@pytest.mark.parametrize("family", ["clip", Geometric()])
@pytest.mark.parametrize("asked", [{"alpha": 0.3}, {"promise": 0.3}])
def test_without_a_blend_policies_that_share_no_action_of_a_context_are_refused(family, asked):
    half, zero = np.log([0.5, 0.5]), np.array([0.0, -np.inf])
    tables = np.array([[half] * 30 + [zero] * 30, [half] * 30 + [zero[::-1]] * 30])
    log = table_log(np.arange(60) < 6, np.zeros(60, int), *tables)
    with pytest.raises(ValueError, match="blend"):
        calibrate(log, family=family, blend=0.0, **asked)
    assert calibrate(log, family=family, **asked).measured.log_total < np.inf


@pytest.mark.parametrize("family", ["clip", Geometric()])
def test_a_family_that_drops_actions_is_not_served_because_the_safe_policy_passes(family):
    safe, optimized = np.log([0.9, 0.1]), np.array([-np.inf, 0.0])
    action = np.arange(50) % 10 // 9
    log = table_log(action, action, safe, optimized)
    found = calibrate(log, alpha=0.3, family=family, blend=0.0)
    assert found.log_beta == -np.inf


@pytest.mark.parametrize("family", ["clip", Geometric()])
def test_weights_are_known_where_a_family_is_the_safe_policy(family):
    rng = np.random.default_rng(0)
    safe, ratio = -rng.exponential(1.0, (2, 40)), rng.normal(size=(2, 40))
    log, draws = Log(np.ones(40), safe[0], (safe + ratio)[0]), Proposals(safe[1], (safe + ratio)[1])
    found = calibrate(log, draws, alpha=0.3, family=family, test_weight=50.0)
    assert found.log_beta == -np.inf
    assert found.measured.max_weight == pytest.approx(50 / 90)
    log = Log(ratio[0] > 1.5, safe[0], (safe + ratio)[0])  # beta is +inf, and not without each row
    draws = Proposals(safe[1], (safe + ratio)[1], source=["safe", "optimized"] * 20)
    assert calibrate(log, draws, alpha=0.22).losses["loss"].terms.stability < 0.01


def test_every_point_of_the_grid_is_a_multiple_of_a_128th():
    points = fine_points(np.arange(len(COARSE) - 1)) * 4 * PARTS
    assert (points == np.rint(points)).all()
    assert COARSE[0] == -1000
    assert COARSE[-1] == 1000
    assert np.diff(COARSE)[np.abs(COARSE[:-1]) < 20].max() == 0.25


def test_a_tie_passes():
    # (10·0.23 + 1)/11 is 0.30000000000000004 in floating point, and meets an alpha of 0.3
    log = Log([0.23] * 10, [0.0] * 10, [0.0] * 10)
    assert calibrate(log, alpha=0.3).exists
    assert calibrate(log, alpha=0.3).losses["loss"].risk == 0.3
    assert not calibrate(log, alpha=0.3 - 1e-7).exists


def test_the_first_failing_beta_ends_the_search_although_later_ones_pass():
    # Harm at a middling ratio: clip takes it first, and the harmless large ratio only later.
    ratio = np.log(np.r_[[0.5] * 60, [4.0] * 12, [400.0] * 4])
    loss = np.r_[np.zeros(60), np.ones(12), np.zeros(4)]
    log, draws = Log(loss, np.zeros(76), ratio), Proposals(np.zeros(4), np.full(4, np.log(400.0)))
    found = calibrate(log, draws, alpha=0.25)
    curve = found.losses["loss"]
    assert found.beta < 4
    later = curve.risks[curve.log_betas > np.log(300)]
    assert curve.risks.max() > 0.25 > later.max()


def test_the_gaussian_world_of_the_paper():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        actions, draws = rng.normal(size=20_000), rng.normal(1, 0.8, size=2_000)

        def scores(x):
            return -(x**2) / 2, -(((x - 1) / 0.8) ** 2) / 2 - np.log(0.8)

        log = Log(actions > 1.5, *scores(actions))
        found.append(calibrate(log, Proposals(*scores(draws)), alpha=0.1).beta)
    assert np.mean(found) == pytest.approx(0.6251, abs=0.01)
