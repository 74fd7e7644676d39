"""What goes together with what: draws, test weights, blends, and the errors where nothing does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.worlds import Geometric, make_world, table_log
from tests.scale import scaled
from tether.control.calibrate import _constraints, calibrate
from tether.control.engine import LAST
from tether.control.families import BudgetedClip, blend_scores, find_family
from tether.control.kernels import ClipKernel
from tether.control.log import Log, Proposals
from tether.control.pose import pose

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")


def posed(log, proposals=None, family="clip", test_weight="empirical", blend=0.01):
    constraints = _constraints(log, "alpha", 0.2, 1.0, None)
    return pose(log, proposals, find_family(family), test_weight, blend, constraints)[0]


def contextual(rows=12, contexts=3, draws=4, seed=0, **more):
    """A log with few contexts, and draws of both policies in each of them."""
    rng = np.random.default_rng(seed)
    context = rng.integers(contexts, size=rows)
    context[:contexts] = np.arange(contexts)
    log = Log(rng.random(rows) < 0.1, *rng.normal(0, 0.3, (2, rows)) - 3, context=context)
    size = 2 * draws * contexts
    label = np.repeat(np.arange(contexts), 2 * draws)
    source = np.tile(np.repeat(["safe", "optimized"], draws), contexts)
    order = rng.permutation(size)
    scores = rng.normal(0, 0.3, (2, size)) - 3
    columns = {"context": label[order], "source": source[order], **more}
    return log, Proposals(*scores[:, order], **columns)


# ---- draws of contexts -------------------------------------------------------------------------


@settings(max_examples=scaled(40), deadline=None)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(3, 20),
    contexts=st.integers(1, 3),
    draws=st.integers(1, 40),
)
def test_each_row_has_draws_of_its_own_context_and_shares_them_evenly(seed, rows, contexts, draws):
    log, proposals = contextual(rows, contexts, draws, seed)
    problem = posed(log, proposals)
    budget = min(draws, 16)
    assert problem.family == BudgetedClip(budget)
    block = problem.rows.columns
    ratio = proposals.log_optimized - proposals.log_safe
    for name, drew in (("safe", proposals.from_safe), ("optimized", ~proposals.from_safe)):
        dealt = block[f"draws_{name}"]
        assert dealt.shape[1] % budget == 0
        for context in range(contexts):
            own = dealt[log.context == context]
            known = ratio[drew & (proposals.context == context)]
            assert np.isin(own, known).all()
            sets, counts = np.unique(own, axis=0, return_counts=True)
            assert counts.max() - counts.min() <= 1
            if len(sets) > 1:  # no draw is in two sets
                assert len(np.unique(sets)) == sets.size
            if draws // budget >= len(own):
                assert counts.max() == 1
    fewest = min(draws / np.mean(log.context == context) for context in range(contexts))
    assert problem.foreseeing == pytest.approx((fewest, fewest))
    shared = any(draws // budget < np.sum(log.context == c) for c in range(contexts))
    assert problem.shares_draws == shared
    levels = [problem.levels(t).log_loss[0, -1] for t in (np.arange(-1, 5, 0.05), np.array([4.95]))]
    assert levels[0] == pytest.approx(levels[1])  # a draw that no row gets counts at every beta


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_rows_with_stored_draws_are_calibrated_as_if_dealt(family):
    world = make_world(5, "draws", rows=40)
    log = world.log()
    drawn = {"draws_safe": world.more["safe"], "draws_optimized": world.more["optimized"]}
    stored = Log.of_rows(type(log.rows)({**log.rows.columns, **drawn}), contextual=True)
    wanted = {"alpha": world.alphas, "bound": world.bounds, "family": family}
    found, dealt = calibrate(stored, **wanted), calibrate(log, world.proposals(), **wanted)
    assert found.log_beta == dealt.log_beta
    assert found.losses["harm"].risk == pytest.approx(dealt.losses["harm"].risk, rel=1e-12)
    assert found.losses["harm"].promise == pytest.approx(dealt.losses["harm"].promise, rel=1e-12)


def test_sharing_draws_costs_something_and_more_draws_or_contexts_cost_less():
    errors = []
    for contexts, draws in ((2, 1), (2, 4), (100, 4), (400, 4)):
        log, proposals = contextual(400, contexts, draws, seed=1)
        harm = log.log_optimized - log.log_safe > 0.3
        context = log.context if contexts < 400 else np.arange(400)
        log = Log(harm, log.log_safe, log.log_optimized, context=context)
        found = calibrate(log, proposals, alpha=0.31)
        errors.append(found.losses["loss"].ratio_error)
    assert errors[0] > errors[1] > errors[2] > errors[3] == 1


def test_the_price_of_sharing_is_the_variance_of_shared_weights():
    """g² − 1 against the variance of P and N over fresh draws."""
    from tether.control.draws import shared_ratio_error

    rng = np.random.default_rng(0)
    rows, contexts, budget, repeats = 200, 5, 8, 400
    context = np.arange(rows) % contexts
    shift = np.linspace(0.2, 1.0, contexts)
    actions = rng.normal(size=rows)
    ratio = shift[context] * actions - shift[context] ** 2 / 2
    log = Log(actions > 1, np.zeros(rows) - 3, ratio - 3, context=context)
    label = np.repeat(np.arange(contexts), 2 * budget)
    source = np.tile(np.repeat(["safe", "optimized"], budget), contexts)
    sums, stated, log_beta = [], [], -0.3
    for _ in range(repeats):
        drawn = rng.normal(size=len(label)) + shift[label] * (source == "optimized")
        scores = shift[label] * drawn - shift[label] ** 2 / 2
        proposals = Proposals(np.zeros(len(label)) - 3, scores - 3, context=label, source=source)
        problem = posed(log, proposals)
        weights = problem.kernel.weigh(problem.rows.columns, np.array([log_beta]), problem)[0][0]
        amounts = problem.constraints[0].excess(problem.rows.columns) * np.exp(weights)
        sums.append((amounts[amounts > 0].sum(), -amounts[amounts < 0].sum()))
        stated.append(shared_ratio_error(problem, log_beta) ** 2 - 1)
    mean, spread = np.mean(sums, axis=0), np.var(sums, axis=0)
    assert np.mean(stated) == pytest.approx((spread / mean**2).sum(), rel=0.25)


# ---- blends and ψ ------------------------------------------------------------------------------


def test_zeros_of_the_optimized_policy_are_blended():
    rng = np.random.default_rng(0)
    safe, optimized = rng.normal(-2, 0.3, (2, 60))
    optimized[:5] = -np.inf
    loss = rng.random(60) < 0.05
    drawn = np.random.default_rng(1).normal(-2, 0.3, (2, 30))
    found = calibrate(Log(loss, safe, optimized), Proposals(*drawn), alpha=0.2)
    assert found.blend == 0.01
    by_hand = Log(loss, safe, blend_scores(optimized, safe, 0.01))
    blended = Proposals(drawn[0], blend_scores(drawn[1], drawn[0], 0.01))
    assert found.log_beta == calibrate(by_hand, blended, alpha=0.2).log_beta
    assert (
        calibrate(Log(loss, safe, optimized), Proposals(*drawn), alpha=0.2, family="mix").blend == 0
    )


@pytest.mark.parametrize("blended", [False, True])
@pytest.mark.parametrize("from_safe", [0, 40])
def test_psi_is_unbiased_whoever_made_the_draws(from_safe, blended):
    """ψ(β) over finite actions, from draws of both policies, and of a blend nobody drew from."""
    rng = np.random.default_rng(0)
    safe = np.array([0.4, 0.3, 0.2, 0.1])
    optimized = np.array([0.0, 0.2, 0.3, 0.5] if blended else [0.1, 0.1, 0.3, 0.5])
    served = 0.01 * safe + 0.99 * optimized if blended else optimized
    t = np.array([-1.0, 0.0, 0.5, 0.6])  # on the grid, and off it
    estimates = []
    with np.errstate(divide="ignore"):
        log_safe, log_optimized = np.log(safe), np.log(optimized)
    for _ in range(300):
        actions = rng.choice(4, 60, p=safe)
        drawn = np.r_[rng.choice(4, from_safe, p=safe), rng.choice(4, 40, p=optimized)]
        source = np.repeat(["safe", "optimized"], [from_safe, 40])
        log = Log(np.zeros(60), log_safe[actions], log_optimized[actions])
        draws = Proposals(log_safe[drawn], log_optimized[drawn], source=source)
        problem = posed(log, draws)
        assert isinstance(problem.kernel, ClipKernel)
        parts = [np.exp(problem.kernel.log_unit(problem, part) + part) for part in (t[:3], t[3:])]
        estimates.append(np.concatenate(parts))
    exact = np.minimum(served, np.exp(t)[:, None] * safe).sum(axis=1)
    error = np.std(estimates, axis=0) / np.sqrt(300)
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 4 * error + 0.011 * blended).all()


def test_draws_of_another_distribution_than_the_scored_one_are_an_error():
    rng = np.random.default_rng(0)
    drawn = rng.normal(2.0, 1.0, 400)  # not the policy N(0, 1), as is said
    scores = -(drawn**2) / 2, -((drawn - 1) ** 2) / 2
    log = Log(np.zeros(50), np.zeros(50), np.zeros(50))
    with pytest.raises(ValueError, match="proposals"):
        calibrate(log, Proposals(*scores, source="safe"), alpha=0.2)
    right = rng.normal(0.0, 1.0, 400)
    scores = -(right**2) / 2, -((right - 1) ** 2) / 2
    calibrate(log, Proposals(*scores, source="safe"), alpha=0.2)


# ---- test weights ------------------------------------------------------------------------------


def test_where_the_test_weight_comes_from():
    rng = np.random.default_rng(0)
    log = Log(np.zeros(30), *rng.normal(-2, 0.2, (2, 30)))
    draws = Proposals(*rng.normal(-2, 0.2, (2, 30)))
    bounded = Log(np.zeros(30), log.log_safe, log.log_optimized, max_ratio=9.0)
    assert posed(log).test_weight == "analytic"
    assert posed(log, draws).test_weight == "empirical"
    assert posed(log, draws, test_weight="analytic").test_weight == "analytic"
    assert posed(bounded, family="mix").test_weight == "max_ratio"
    assert posed(log, draws, test_weight=7).test_weight == 7.0
    assert posed(log).foreseeing is posed(log, draws, test_weight=7).foreseeing is None
    assert posed(log, draws).foreseeing == (0.0, 30.0)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(2)"])
def test_a_number_below_the_weights_of_the_rows_is_an_error(family):
    log = table_log(np.zeros(50), np.arange(50) % 2, *np.log([[0.5, 0.5], [0.9, 0.1]]))
    with pytest.raises(ValueError, match="test_weight"):
        calibrate(log, alpha=0.2, family=family, test_weight=1e-6)
    plain = Log(np.zeros(50), log.log_safe, log.log_optimized)
    with pytest.raises(ValueError, match="test_weight"):
        calibrate(plain, alpha=0.2, test_weight=1e-6)
    assert calibrate(log, alpha=0.2, family=family, test_weight=1.9).exists


# ---- errors ------------------------------------------------------------------------------------

LOG = Log(np.zeros(5), np.zeros(5) - 1, np.zeros(5) - 1)
TABLE = np.log(np.full((5, 2), 0.5))
TABLES = Log(np.zeros(5), TABLE[:, 0], TABLE[:, 0], log_safe_all=TABLE, log_optimized_all=TABLE)
CONTEXTS = Log(np.zeros(5), np.zeros(5) - 1, np.zeros(5) - 1, context=range(5))
MIXED = Log(np.zeros(5), np.zeros(5) - 1, np.zeros(5) - 1, log_mix=np.zeros(5) - 1)
DRAWS = Proposals(np.zeros(5) - 1, np.zeros(5) - 1)
WRONG = {
    **{"alpha": (1.0, {"other": 0.1}, None), "test_weight": ("largest", -1.0)},
    **{"family": ("softmax", Geometric), "bound": (0.0,), "ratio_error": (0.5,), "blend": (1.0,)},
}


@pytest.mark.parametrize(
    ("arguments", "settings", "named"),
    [
        *(((CONTEXTS,), {}, "proposals"), ((TABLES, DRAWS), {}, "proposals")),
        *(((CONTEXTS, DRAWS), {}, "contexts"), ((MIXED, DRAWS), {}, "log_mix")),
        ((LOG, Proposals([-1.0], [-1.0], context=[1])), {}, "contexts"),
        ((CONTEXTS, Proposals([-1.0], [-1.0], context=[9])), {}, "context"),
        ((MIXED,), {}, "safe_share"),
        *(((LOG,), {"family": each}, "proposals") for each in ("mix", "budgeted_clip")),
        ((LOG, DRAWS), {"family": "budgeted_clip(2)"}, "proposals"),
        ((LOG, DRAWS), {"family": "mix", "test_weight": "analytic"}, "test_weight"),
        ((LOG, Proposals([-np.inf], [-1.0])), {"family": "mix"}, "log_safe"),
        ((LOG, Proposals([-np.inf], [-1.0])), {}, "both policies"),
        ((LOG,), {"family": "token_clip"}, "policy_path"),
        ((LOG,), {"family": "budgeted_clip(0)"}, "max_draws"),
        (contextual(draws=520), {"family": "budgeted_clip(513)"}, "family"),
        ((CONTEXTS,), {"family": Geometric(), "test_weight": 3.0}, "family"),
        *(((LOG,), {name: value}, name) for name, values in WRONG.items() for value in values),
        ((LOG,), {"promise": 0.1}, "alpha"),
        *(((LOG, 0.1), {}, "proposals"), (([0.1],), {}, "log")),
        ((Log([2.0], [0.0], [0.0]),), {}, "loss"),
        ((Log([0.0], [-2000.0], [0.0]),), {}, "log_safe"),
    ],
)
def test_errors_name_the_argument(arguments, settings, named):
    with pytest.raises((TypeError, ValueError), match=named):
        calibrate(*arguments, **{"alpha": 0.2, **settings})


def test_the_ends_of_the_grid_are_the_two_policies():
    for kind in ("clip", "mix", "tables", "budgeted tables", "draws", "own"):
        world = make_world(2, kind, rows=8)
        problem = posed(world.log(), world.proposals(), world.family, blend=0.0)
        ends = np.array([-LAST, LAST])
        safe, optimized = problem.kernel.weigh(problem.rows.columns, ends, problem).log_w
        ratio = world.columns["log_optimized"] - world.columns["log_safe"]
        assert np.ptp(safe) == pytest.approx(0.0, abs=1e-9)
        np.testing.assert_allclose(optimized - optimized[0], ratio - ratio[0], atol=1e-6)
