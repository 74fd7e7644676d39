"""Sanity checks of scores: every misuse is named, and true scores are not."""

import numpy as np
import pytest

import tether
from tether.control.score_checks import _repeats_scores, refuse_probabilities, score_warnings

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)


def scored(safe=SAFE, optimized=OPTIMIZED, rows=1000, seed=0, drawn_by=None):
    """Scores of a log and of draws of both policies, as a newcomer would put them in a table."""
    rng = np.random.default_rng(seed)
    actions = (drawn_by or safe).sample(rows, rng)
    loss = actions > 1.5
    draws = {"safe": safe.sample(rows, rng), "optimized": optimized.sample(rows, rng)}
    both = np.concatenate([draws["safe"], draws["optimized"]])
    log = {
        "log_safe": safe.log_prob(None, actions),
        "log_optimized": optimized.log_prob(None, actions),
    }
    proposals = {
        "log_safe": safe.log_prob(None, both),
        "log_optimized": optimized.log_prob(None, both),
        "source": np.repeat(["safe", "optimized"], rows),
    }
    return {"loss": loss, **log}, proposals


def categorical(rng, contexts=4, actions=5, spread=1.0):
    return tether.Categorical.from_logits(spread * rng.normal(size=(contexts, actions)))


# True scores are not named.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("safe", "optimized"),
    [
        (SAFE, OPTIMIZED),
        (SAFE, tether.Gaussian(0.1, 1.0)),
        (tether.Gaussian(0.0, 0.2), tether.Gaussian(0.1, 0.2)),  # log-densities above 0
        (tether.Gaussian(0.0, 0.01), tether.Gaussian(0.005, 0.01)),
        (tether.Pool.uniform(8), tether.Pool(np.arange(8.0) / 4)),  # a constant log_safe
        (tether.Pool(np.arange(8.0) / 4), tether.Pool.uniform(8)),  # a constant log_optimized
    ],
)
def test_true_scores_are_not_named(safe, optimized, seed):
    columns, draws = scored(safe, optimized, seed=seed)
    log, proposals = tether.Log(**columns), tether.Proposals(**draws)
    assert score_warnings(log, proposals) == ()
    assert score_warnings(log) == ()
    # Only differences count: the safe policy's scores may be the zero of all others.
    relative = {**columns, "log_safe": np.zeros(1000)}
    relative["log_optimized"] = columns["log_optimized"] - columns["log_safe"]
    drawn = {**draws, "log_safe": np.zeros(2000)}
    drawn["log_optimized"] = draws["log_optimized"] - draws["log_safe"]
    assert score_warnings(tether.Log(**relative), tether.Proposals(**drawn)) == ()


@pytest.mark.parametrize("seed", range(5))
def test_true_scores_with_contexts_tables_and_mixtures_are_not_named(seed):
    rng = np.random.default_rng(seed)
    safe, optimized = categorical(rng), categorical(rng)
    deployed = tether.Mixture([safe, tether.Tethered(safe, optimized, 0.7)], [2, 1])
    contexts = rng.integers(4, size=600)
    for options in ({}, {"logged_by": deployed, "safe_share": 2 / 3}, {"logged_by": deployed}):
        actions = options.get("logged_by", safe).sample(contexts, rng)
        log = tether.make_log(safe, optimized, contexts, actions, actions == 1, **options)
        assert score_warnings(log) == ()
    listed = [tether.FunctionPolicy(each.sample, each.log_prob) for each in (safe, optimized)]
    actions = safe.sample(contexts, rng)
    log = tether.make_log(*listed, contexts, actions, actions == 1)
    proposals = tether.make_proposals(*listed, np.arange(4), 3, rng)
    assert score_warnings(log, proposals) == ()


def test_a_uniform_shortlist_is_not_named():
    """N candidates of the safe policy in each row, of which one was taken at random."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(500, 16))
    log_optimized = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    taken = rng.integers(16, size=500)
    log = tether.Log(
        np.zeros(500),
        np.full(500, -np.log(16)),
        log_optimized[np.arange(500), taken],
        log_safe_all=np.full((500, 16), -np.log(16)),
        log_optimized_all=log_optimized,
    )
    assert score_warnings(log) == ()


def test_an_optimized_policy_with_zeros_is_not_named_where_tables_show_them():
    rng = np.random.default_rng(1)
    safe = categorical(rng)
    best = tether.Categorical.from_probabilities(np.eye(5)[[0, 2, 1, 4]])
    contexts = rng.integers(4, size=2000)
    actions = safe.sample(contexts, rng)
    assert score_warnings(tether.make_log(safe, best, contexts, actions, actions == 0)) == ()


def test_policies_far_apart_agree_in_their_overlap():
    """The mean ratio is then far below 1 by chance; the overlap, of bounded terms, is right."""
    columns, draws = scored(SAFE, tether.Gaussian(6.0, 0.5))
    found = score_warnings(tether.Log(**columns), tether.Proposals(**draws))
    assert len(found) == 1
    assert "the log hardly contains what the optimized policy does" in found[0]


# Misuse is named.


@pytest.mark.parametrize("column", ["log_safe", "log_optimized"])
def test_probabilities_are_refused(column):
    rng = np.random.default_rng(0)
    safe, optimized = tether.Pool(np.arange(5.0)), tether.Pool.uniform(5)
    columns, draws = scored(safe, optimized, 100)
    other = tether.Pool(-np.arange(5.0)).log_prob(None, rng.integers(5, size=100))
    wrong = np.exp(columns["log_safe"] if column == "log_safe" else other)
    with pytest.raises(ValueError, match=rf"{column} must hold log-probabilities.*their logarithm"):
        tether.Log(**{**columns, column: wrong})
    with pytest.raises(ValueError, match=rf"{column} must hold log-probabilities"):
        tether.Proposals(**{**draws, column: np.tile(wrong, 2)})
    short = tether.Log(
        columns["loss"][:9], columns["log_safe"][:9], wrong[:9] + 1e-9 * np.arange(9)
    )
    assert any("as probabilities do" in warning for warning in score_warnings(short))


def test_the_zeros_and_ones_of_a_deterministic_rule_are_refused():
    with pytest.raises(ValueError, match=r"100 values lie between 0 and 1 \(0 to 1\)"):
        refuse_probabilities("log_optimized", np.arange(100) % 2.0)
    refuse_probabilities("log_optimized", np.zeros(100))
    refuse_probabilities("log_optimized", np.full(100, np.log(2)))  # a uniform density
    refuse_probabilities("log_optimized", np.append(np.linspace(0, 1, 99), -0.1))
    refuse_probabilities("log_optimized", np.append(np.linspace(0, 1, 99), -np.inf))


def test_probabilities_in_the_tables_are_refused_with_the_reason():
    table = np.tile([0.2, 0.8], (3, 1))
    with pytest.raises(ValueError, match=r"log_safe_all\[0\].*look like probabilities: take their"):
        tether.Log([0, 1, 0], table[:, 0], table[:, 0], log_safe_all=table, log_optimized_all=table)


def test_the_constant_propensity_of_a_uniform_policy_in_place_of_its_logarithm():
    columns, _ = scored(tether.Pool.uniform(80), tether.Pool(np.arange(80) / 40), 2000)
    found = score_warnings(tether.Log(**{**columns, "log_safe": np.full(2000, 1 / 80)}))
    assert any("above 0" in warning and "log_safe[0]" in warning for warning in found)
    assert any("come to only" in warning for warning in found)


def test_exchanged_columns_and_exchanged_signs_are_named():
    columns, draws = scored()
    exchanged = {**columns, "log_safe": columns["log_optimized"]}
    exchanged["log_optimized"] = columns["log_safe"]
    negated = {**columns, "log_safe": -columns["log_safe"]}
    negated["log_optimized"] = -columns["log_optimized"]
    for wrong in (exchanged, negated):
        found = score_warnings(tether.Log(**wrong), tether.Proposals(**draws))
        assert found, wrong
    found = score_warnings(tether.Log(**exchanged), tether.Proposals(**draws))
    assert any("overlap" in warning for warning in found)


def test_logarithms_to_another_base_are_named():
    safe, optimized = tether.Pool.uniform(8), tether.Pool(np.arange(8.0))
    columns, _ = scored(safe, optimized, 2000)
    common = {name: columns[name] / np.log(10) for name in ("log_safe", "log_optimized")}
    assert score_warnings(tether.Log(**{**columns, **common}))


def test_a_log_of_another_policy_is_named():
    columns, draws = scored(rows=2000, drawn_by=tether.Gaussian(1.0, 0.8))
    found = score_warnings(tether.Log(**columns), tether.Proposals(**draws))
    assert any("come to" in warning and "at most 1" in warning for warning in found)
    rng = np.random.default_rng(3)
    safe, optimized = categorical(rng, spread=2.0), categorical(rng, spread=2.0)
    contexts = rng.integers(4, size=2000)
    actions = optimized.sample(contexts, rng)
    with pytest.warns(tether.AssumptionWarning, match="or another policy took them"):
        log = tether.make_log(safe, optimized, contexts, actions, actions == 1)
    found = score_warnings(log)
    assert any("according to the tables of all actions" in warning for warning in found)


@pytest.mark.parametrize("contextual", [False, True])
def test_draws_of_the_wrong_policy_are_named(contextual):
    columns, draws = scored(tether.Gaussian(0.0), tether.Gaussian(2.0), 2000)
    if contextual:
        columns["context"] = np.arange(2000) % 50
        draws["context"] = np.tile(np.arange(2000) % 50, 2)
    log = tether.Log(**columns)
    assert score_warnings(log, tether.Proposals(**draws)) == ()
    from_safe = {name: values[:2000] for name, values in draws.items()}
    (found,) = score_warnings(log, tether.Proposals(**{**from_safe, "source": "optimized"}))
    assert "according to the draws of the optimized policy" in found


def test_copied_and_constant_columns_are_named():
    columns, draws = scored()
    copied = tether.Log(**{**columns, "log_optimized": columns["log_safe"]})
    (found,) = score_warnings(copied)
    assert "equal in every row of the log: unless the two policies are the same" in found
    found = score_warnings(copied, tether.Proposals(**draws))
    assert "but not in the proposals" in found[0]
    constant = tether.Log(columns["loss"], np.full(1000, -3.0), np.full(1000, -4.0))
    (found,) = score_warnings(constant)
    assert "every log_safe is -3 and every log_optimized is -4" in found
    assert score_warnings(tether.Log([0.0], [-1.0], [-1.0])) == ()


def test_the_log_in_place_of_proposals_is_named():
    columns, _ = scored()
    scores = {name: columns[name] for name in ("log_safe", "log_optimized")}
    found = score_warnings(tether.Log(**columns), tether.Proposals(**scores))
    assert "the proposals are the rows of the log" in found[0]


def test_contexts_that_do_not_fit_are_left_to_calibration():
    columns, draws = scored(rows=100)
    log = tether.Log(**columns, context=np.arange(100))
    for context in (None, np.repeat("a", 200), np.full(200, 1000)):
        assert score_warnings(log, tether.Proposals(**draws, context=context)) == ()


def test_the_comparison_of_overlaps_is_rarely_wrong_even_with_one_draw_per_context():
    """Hoeffding's bound holds for any policies: no false alarm in 300 worlds."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        safe, optimized = categorical(rng, 3, 4, 3.0), categorical(rng, 3, 4, 3.0)
        contexts = rng.integers(3, size=60)
        listed = [tether.FunctionPolicy(each.sample, each.log_prob) for each in (safe, optimized)]
        actions = safe.sample(contexts, rng)
        log = tether.make_log(*listed, contexts, actions, actions == 1)
        proposals = tether.make_proposals(*listed, np.arange(3), 1, rng)
        assert not any("overlap" in warning for warning in score_warnings(log, proposals))


@pytest.mark.parametrize("copies", [1, 2, 3, 1000])
def test_repeated_scores_are_counted(copies):
    """More than half as many distinct pairs as rows, exactly half, and few; 0 and −0 are one."""
    rng = np.random.default_rng(copies)
    rows = 6000
    safe = np.repeat(rng.normal(size=rows // copies), copies)
    safe[:2] = 0.0, -0.0
    optimized = np.repeat(rng.normal(size=rows // copies), copies)
    log = tether.Log(np.zeros(rows), safe, optimized)
    distinct = len(np.unique(np.stack([safe + 0.0, optimized]), axis=1).T)
    assert _repeats_scores(log) == (distinct <= rows / 2)
