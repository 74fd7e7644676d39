"""Plans of draws: unbiased weights, the noise that is planned by, and the budget."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.control.draw_plan import NEGLIGIBLE_NOISE, DrawPlan, allocate_blocks, plan_draws
from tether.control.problem import pose

N = 4


def score(action, mean):
    return -((np.asarray(action) - mean) ** 2) / 2


SAFE = tether.FunctionPolicy(lambda x, rng: rng.normal(size=len(x)), lambda x, a: score(a, 0.0))
OPTIMIZED = tether.FunctionPolicy(
    lambda x, rng: rng.normal(np.asarray(x)[:, 0]), lambda x, a: score(a, np.asarray(x)[:, 0])
)


def numbered(shifts):
    """Contexts that differ, so that every row has draws of its own."""
    return np.column_stack([shifts, np.arange(len(shifts))])


def trained_plan(rng, *, beta=0.1, draws=24.0, contexts=200):
    training = numbered(rng.uniform(0, 5, size=contexts))
    proposals = tether.make_proposals(SAFE, OPTIMIZED, training, 12, rng)
    return plan_draws(proposals, beta=beta, draws=draws, family=f"budgeted_clip({N})")


def served_ratio(shift, action, log_beta):
    """The density that is served over the safe one, by integration: what weights must average."""
    grid = np.linspace(-9, 9 + shift, 20_001)
    step, safe = grid[1] - grid[0], np.exp(score(grid, 0.0)) / np.sqrt(2 * np.pi)
    log_ratio = shift * grid - shift**2 / 2
    proposed = safe if log_beta < 0 else safe * np.exp(log_ratio)
    side = 1 if log_beta < 0 else -1
    accept = np.exp(np.minimum(side * (log_ratio - log_beta), 0.0))
    rejected = 1 - (proposed * accept).sum() * step
    own = shift * action - shift**2 / 2
    kept = np.exp(min(own, log_beta) - min(log_beta, 0.0))
    return kept * sum(rejected**k for k in range(N)) + rejected**N


def weights_with(proposals, contexts, action, log_beta):
    actions = np.full(len(contexts), action)
    log = tether.make_log(SAFE, OPTIMIZED, contexts, actions, np.zeros(len(contexts)))
    problem = pose(log, proposals, tether.BudgetedClip(N), "empirical")
    return np.exp(problem.log_weights(log_beta)[0])


def standard_error(values):
    return values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(("shift", "log_beta"), [(3.0, -2.0), (1.5, 0.4)])
def test_weights_from_planned_draws_are_unbiased(shift, log_beta):
    rng = np.random.default_rng(1)
    contexts = numbered(np.full(8_000, shift))
    plan = trained_plan(rng, beta=float(np.exp(log_beta)))
    proposals = tether.make_proposals(SAFE, OPTIMIZED, contexts, plan, rng)
    counts = np.bincount(np.unique(proposals.context, return_inverse=True)[1])
    assert len(np.unique(counts)) > 1  # the pilots lead to different numbers
    weights = weights_with(proposals, contexts, shift - 0.5, log_beta)
    expected = served_ratio(shift, shift - 0.5, log_beta)
    assert weights.mean() == pytest.approx(expected, abs=4 * standard_error(weights))


def test_weights_are_biased_if_the_number_of_draws_depends_on_those_that_are_averaged():
    """The same measurement shows it: draw a second block only where the first weighs much."""
    rng, shift, log_beta = np.random.default_rng(2), 3.0, -2.0
    contexts = numbered(np.full(8_000, shift))
    first, second = (
        weights_with(
            tether.make_proposals(SAFE, OPTIMIZED, contexts, N, rng), contexts, 2.5, log_beta
        )
        for _ in range(2)
    )
    stopped = np.where(first > first.mean(), (first + second) / 2, first)
    expected = served_ratio(shift, 2.5, log_beta)
    assert first.mean() == pytest.approx(expected, abs=4 * standard_error(first))
    assert stopped.mean() < expected - 8 * standard_error(stopped)


@pytest.mark.parametrize(("shift", "log_beta"), [(2.0, -1.0), (3.0, -3.0), (2.0, 0.5)])
def test_the_noise_of_a_block_is_the_variance_of_a_weight(shift, log_beta):
    rng = np.random.default_rng(3)
    contexts = numbered(np.full(400, shift))
    proposals = tether.make_proposals(SAFE, OPTIMIZED, contexts, 54, rng)
    plan = plan_draws(
        proposals, beta=float(np.exp(log_beta)), draws=8, family=f"budgeted_clip({N})"
    )
    measured = []
    for action in rng.normal(size=60):  # actions of the safe policy
        fresh = tether.make_proposals(SAFE, OPTIMIZED, contexts, N, rng)
        measured.append(weights_with(fresh, contexts, action, log_beta).var(ddof=1))
    mean = np.average(plan.noise, weights=plan.contexts)
    assert mean == pytest.approx(np.mean(measured), rel=0.4)


@given(
    st.lists(st.tuples(st.floats(0, 4), st.integers(1, 4)), min_size=1, max_size=3),
    st.floats(1, 3),
)
def test_blocks_stay_within_the_mean_and_are_near_the_best_of_all_allocations(levels, mean):
    noise, contexts = (np.array(each) for each in zip(*levels, strict=True))
    blocks = allocate_blocks(noise.astype(float), contexts, mean)
    assert np.all(blocks >= 1)
    assert np.average(blocks, weights=contexts) <= mean
    most = int(mean * contexts.sum() / contexts.min())
    allowed = np.array(list(itertools.product(range(1, 1 + min(most, 9)), repeat=len(noise))))
    allowed = allowed[allowed @ contexts <= mean * contexts.sum()]
    best = ((noise / allowed) @ contexts).min() / contexts.sum()
    reached = np.average(noise / blocks, weights=contexts)
    uniform = np.average(noise, weights=contexts) / int(mean)
    assert reached <= min(uniform, 1.5 * best) + NEGLIGIBLE_NOISE**2


def test_blocks_go_in_proportion_to_the_square_root_of_the_noise():
    blocks = allocate_blocks(np.array([1.0, 4.0, 9.0]), np.array([5, 5, 5]), 40.0)
    assert blocks.tolist() == [20, 40, 60]


def test_contexts_in_which_weights_are_noisy_get_more_draws_and_the_mean_is_kept():
    rng = np.random.default_rng(4)
    plan = trained_plan(rng, beta=1e-3, draws=40.0, contexts=400)
    shifts = rng.uniform(0, 5, size=1_000)
    proposals = tether.make_proposals(SAFE, OPTIMIZED, numbered(shifts), plan, rng)
    assert len(proposals) / 1_000 / 2 + plan.pilot == pytest.approx(40, rel=0.1)
    assert plan.blocks[-1] > 4 * plan.blocks[0]
    assert plan.noise_left < plan.uniform_noise
    assert "with twice" in str(plan)


def test_no_draws_are_spent_where_there_is_no_noise():
    same = numbered(np.zeros(30))
    proposals = tether.make_proposals(SAFE, OPTIMIZED, same, 8, np.random.default_rng(0))
    plan = plan_draws(proposals, beta=0.5, draws=100, family="budgeted_clip(4)")
    assert plan.mean_draws == 4


def test_log_ratios_that_are_infinite_are_planned_for():
    proposals = tether.Proposals(
        [0.0, 0.0, -np.inf, 0.0] * 40,
        [0.0, -np.inf, 0.0, 0.0] * 40,
        context=np.repeat(np.arange(20), 8),
        source=["safe", "safe", "optimized", "optimized"] * 40,
    )
    plan = plan_draws(proposals, beta=1.0, draws=8, family="budgeted_clip(2)", pilot=2)
    assert np.isfinite(plan.noise).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": 0.0}, "beta must be above 0"),
        ({"draws": 5}, "draws must be at least 8, a block of 4 and a pilot of 4, got 5"),
        ({"family": "mix"}, "family must be a budgeted clip"),
        ({"pilot": 0}, "pilot must be an integer of at least 1"),
        ({"pilot": 7}, "at least 9 draws of each policy in every context, got 8"),
    ],
)
def test_arguments_are_checked(changes, message):
    contexts = numbered(np.ones(12))
    proposals = tether.make_proposals(SAFE, OPTIMIZED, contexts, 8, np.random.default_rng(0))
    given = {"beta": 1.0, "draws": 20, "family": "budgeted_clip(4)", **changes}
    with pytest.raises(ValueError, match=message):
        plan_draws(proposals, **given)


def test_draws_without_contexts_cannot_be_planned():
    proposals = tether.Proposals([0.0], [0.0])
    with pytest.raises(ValueError, match="proposals must have contexts"):
        plan_draws(proposals, beta=1.0, draws=20)
    with pytest.raises(TypeError, match="proposals must be Proposals"):
        plan_draws([1.0], beta=1.0, draws=20)
    plan = trained_plan(np.random.default_rng(0), contexts=20)
    assert isinstance(plan, DrawPlan)
    gaussian = tether.Gaussian(0.0)
    with pytest.raises(ValueError, match="a plan of draws is for contexts"):
        tether.make_proposals(gaussian, gaussian, None, plan, np.random.default_rng(0))
