from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tests.scale import scaled

CONFIDENCES = st.sampled_from([0.95, 0.9, 0.7, 0.4])
P_VALUES = st.sampled_from(["hoeffding_bentkus", "betting"])


def slow_p_values(rows, alpha, level, kind):
    if kind == "betting":
        rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    columns = list(zip(*rows, strict=True))
    if kind == "betting":
        return [brute_force.betting(map(float, c), float(alpha), level, len(rows)) for c in columns]
    return [brute_force.hoeffding_bentkus(sum(c), len(rows), alpha) for c in columns]


def walk(p_values, error):
    index = -1
    for p in p_values:
        if p > error * (1 + 1e-10):
            break
        index += 1
    return index


@pytest.mark.filterwarnings("ignore:are labels or scores inverted")
@pytest.mark.slow
@example([[(0.0, False)]], 1, Fraction(7, 10), 0.7, "hoeffding_bentkus", "fdr")  # a tie
@settings(max_examples=scaled(100), deadline=None)
@given(
    items=brute_force.ITEMS,
    copies=st.integers(1, 4),
    alpha=brute_force.ALPHAS,
    confidence=CONFIDENCES,
    kind=P_VALUES,
    loss=st.sampled_from(["fdr", "any_false", "miss"]),
)
def test_fixed_sequence_on_claims(items, copies, alpha, confidence, kind, loss):
    items = items * copies
    thresholds = brute_force.candidates(items, loss)
    rows = brute_force.table(items, loss, thresholds)
    error = 1 - confidence
    index = walk(slow_p_values(rows, alpha, error, kind), error)
    claims = tether.Claims(*brute_force.flat(items))
    found = tether.ltt(claims, alpha=float(alpha), loss=loss, confidence=confidence, pvalue=kind)
    assert found.exists == (index >= 0)
    if found.exists:
        assert found.threshold == thresholds[index]
        assert found.risk == pytest.approx(float(sum(row[index] for row in rows)) / len(rows))


@settings(max_examples=scaled(100), deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 4), min_size=m, max_size=m), min_size=1, max_size=30
        )
    ),
    alpha=brute_force.ALPHAS,
    confidence=CONFIDENCES,
    kind=P_VALUES,
    procedure=st.sampled_from(["fixed_sequence", "bonferroni", "holm"]),
)
def test_procedures_on_a_matrix(rows, alpha, confidence, kind, procedure):
    exact = [[Fraction(cell, 4) for cell in row] for row in rows]
    count = len(rows[0])
    error = 1 - confidence
    level = error if procedure == "fixed_sequence" else error / count
    p_values = slow_p_values(exact, alpha, level, kind)
    if procedure == "fixed_sequence":
        index = walk(p_values, error)
    elif procedure == "bonferroni":
        index = max(
            (j for j, p in enumerate(p_values) if p <= error / count * (1 + 1e-10)), default=-1
        )
    else:
        index = max(brute_force.holm(p_values, error), default=-1)
    given = 2 * np.array(exact, dtype=float)[:, ::-1]
    found = tether.ltt(
        given,
        alpha=2 * float(alpha),
        bound=2,
        confidence=confidence,
        procedure=procedure,
        pvalue=kind,
    )
    assert found.exists == (index >= 0)
    assert found.threshold == count - 1 - max(index, 0)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    alpha=brute_force.ALPHAS,
    procedure=st.sampled_from(["bonferroni", "holm"]),
)
def test_several_losses_are_tested_by_the_larger_p_value(seed, alpha, procedure):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 2, (2, 40, 4)) * rng.random(4)
    found = tether.ltt(
        {"first": first, "second": second}, alpha=float(alpha), confidence=0.7, procedure=procedure
    )
    levels = [
        [
            brute_force.hoeffding_bentkus(Fraction(sum(map(Fraction, c))), 40, alpha)
            for c in m.T[::-1]
        ]
        for m in (first, second)
    ]
    largest = [max(pair) for pair in zip(*levels, strict=True)]
    if procedure == "holm":
        shown = brute_force.holm(largest, 0.3)
    else:
        shown = {j for j, p in enumerate(largest) if p <= 0.3 / 4}
    assert found.exists == bool(shown)
    if shown:
        assert found.threshold == 3 - max(shown)
        assert [part.loss for part in found.by_loss] == ["first", "second"]


def test_holm_needs_thresholds_chosen_beforehand():
    claims = tether.Claims([0.5], [1], [0, 1])
    with pytest.raises(ValueError, match="procedure = 'holm' needs thresholds chosen before"):
        tether.ltt(claims, alpha=0.1, procedure="holm")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 1}, "confidence must be above 0 and below 1, got 1"),
        ({"procedure": "bon"}, "procedure must be one of 'fixed_sequence'"),
        ({"pvalue": "clt"}, "pvalue must be one of"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.ltt(np.zeros((5, 2)), alpha=0.1, **arguments)


def test_weights_are_refused():
    with pytest.raises(ValueError, match="unweighted"):
        tether.ltt(tether.risk.sweep(np.zeros((3, 2)), weights=[1, 2, 3]), alpha=0.1)


def test_a_stream_cannot_be_bet_on():
    with pytest.raises(ValueError, match="list of chunks"):
        tether.ltt(iter([np.zeros((3, 2))]), alpha=0.1, pvalue="betting")


def test_betting_walks_past_its_first_batch_of_candidates():
    rng = np.random.default_rng(3)
    scores = rng.random(600)
    claims = tether.Claims(scores, rng.random(600) < 0.3 + 0.7 * scores, np.arange(0, 601, 2))
    found = tether.ltt(claims, alpha=0.3, pvalue="betting")
    swept = tether.risk.sweep(claims)
    (losses,) = swept.read_losses(slice(None), np.random.default_rng(0).permutation(300))
    index = walk([brute_force.betting(c, 0.3, 0.1, 300) for c in losses.T], 0.1)
    assert index > 64
    assert found.threshold == swept.thresholds[index]


def test_betting_is_not_misled_by_a_sorted_table():
    """Losses sorted by size: bets in that order would win early and stop."""
    losses = np.sort(np.random.default_rng(0).random(400) < 0.5)[:, None].astype(float)
    found = tether.ltt(losses, alpha=0.3, pvalue="betting")
    assert not found.exists


def test_the_order_of_bets_is_set_by_the_generator():
    losses = np.random.default_rng(1).random((80, 300)) * np.linspace(0.5, 0.1, 300)
    thresholds = [
        tether.ltt(losses, alpha=0.2, pvalue="betting", rng=np.random.default_rng(seed)).threshold
        for seed in (0, 0, 1, 2, 3, 4)
    ]
    assert thresholds[0] == thresholds[1]
    assert len(set(thresholds)) > 1


def test_holm_needs_the_same_thresholds_for_every_loss():
    losses = {name: tether.risk.sweep(np.zeros((9, size))) for name, size in (("a", 2), ("b", 3))}
    with pytest.raises(ValueError, match="needs the same thresholds for every loss"):
        tether.ltt(losses, alpha=0.1, procedure="holm")


def test_a_seed_is_not_a_generator():
    with pytest.raises(TypeError, match=r"^rng must be a numpy.random.Generator"):
        tether.ltt(np.zeros((20, 3)), alpha=0.1, rng=3)


def test_too_few_items_for_a_test_are_a_warning():
    found = tether.ltt(np.zeros((20, 3)), alpha=0.1)
    assert not found.exists
    assert "20 items cannot show anything" in found.warnings[0]
    assert "(1 − 0.1)^20 = 0.1216 is above 1 − confidence = 0.1" in found.warnings[0]
    found = tether.ltt(np.zeros((25, 3)), alpha=0.1, procedure="bonferroni")
    assert "is above (1 − confidence) / 3 thresholds = 0.03333" in found.warnings[0]
    assert tether.ltt(np.zeros((25, 3)), alpha=0.1).exists
    enough = tether.ltt(np.ones((25, 3)), alpha=0.1)
    assert "the safest, 2, already fails" in enough.warnings[0]
