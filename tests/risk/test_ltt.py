from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tether
from tests.risk import direct

DELTAS = st.sampled_from([0.05, 0.1, 0.3, 0.6])
PVALUES = st.sampled_from(["hoeffding_bentkus", "wsr"])


def slow_pvalues(rows, alpha, level, kind):
    if kind == "wsr":
        rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    columns = list(zip(*rows, strict=True))
    if kind == "wsr":
        return [direct.betting(map(float, c), float(alpha), level, len(rows)) for c in columns]
    return [direct.hoeffding_bentkus(sum(c), len(rows), alpha) for c in columns]


def walk(pvalues, delta):
    index = -1
    for p in pvalues:
        if p > delta * (1 + 1e-10):
            break
        index += 1
    return index


@example([[(0.0, False)]], 1, Fraction(7, 10), 0.3, "hoeffding_bentkus", "fdr")  # a tie at delta
@settings(max_examples=400, deadline=None)
@given(
    items=direct.ITEMS,
    copies=st.integers(1, 4),
    alpha=direct.ALPHAS,
    delta=DELTAS,
    kind=PVALUES,
    loss=st.sampled_from(["fdr", "any_false", "miss"]),
)
def test_fixed_sequence_on_claims(items, copies, alpha, delta, kind, loss):
    items = items * copies
    thresholds = direct.candidates(items, loss)
    rows = direct.table(items, loss, thresholds)
    index = walk(slow_pvalues(rows, alpha, delta, kind), delta)
    claims = tether.Claims(*direct.flat(items))
    found = tether.ltt(claims, alpha=float(alpha), loss=loss, delta=delta, pvalue=kind)
    assert found.exists == (index >= 0)
    if found.exists:
        assert found.threshold == thresholds[index]
        assert found.risk == pytest.approx(float(sum(row[index] for row in rows)) / len(rows))


@settings(max_examples=400, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 4), min_size=m, max_size=m), min_size=1, max_size=30
        )
    ),
    alpha=direct.ALPHAS,
    delta=DELTAS,
    kind=PVALUES,
    procedure=st.sampled_from(["fixed_sequence", "bonferroni", "holm"]),
)
def test_procedures_on_a_matrix(rows, alpha, delta, kind, procedure):
    exact = [[Fraction(cell, 4) for cell in row] for row in rows]
    count = len(rows[0])
    level = delta if procedure == "fixed_sequence" else delta / count
    pvalues = slow_pvalues(exact, alpha, level, kind)
    if procedure == "fixed_sequence":
        index = walk(pvalues, delta)
    elif procedure == "bonferroni":
        index = max(
            (j for j, p in enumerate(pvalues) if p <= delta / count * (1 + 1e-10)), default=-1
        )
    else:
        index = max(direct.holm(pvalues, delta), default=-1)
    given = 2 * np.array(exact, dtype=float)[:, ::-1]
    found = tether.ltt(
        given, alpha=2 * float(alpha), bound=2, delta=delta, procedure=procedure, pvalue=kind
    )
    assert found.exists == (index >= 0)
    assert found.threshold == count - 1 - max(index, 0)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    alpha=direct.ALPHAS,
    procedure=st.sampled_from(["bonferroni", "holm"]),
)
def test_several_losses_are_tested_by_the_larger_pvalue(seed, alpha, procedure):
    rng = np.random.default_rng(seed)
    one, two = rng.integers(0, 2, (2, 40, 4)) * rng.random(4)
    found = tether.ltt({"one": one, "two": two}, alpha=float(alpha), delta=0.3, procedure=procedure)
    levels = [
        [direct.hoeffding_bentkus(Fraction(sum(map(Fraction, c))), 40, alpha) for c in m.T[::-1]]
        for m in (one, two)
    ]
    largest = [max(pair) for pair in zip(*levels, strict=True)]
    if procedure == "holm":
        shown = direct.holm(largest, 0.3)
    else:
        shown = {j for j, p in enumerate(largest) if p <= 0.3 / 4}
    assert found.exists == bool(shown)
    if shown:
        assert found.threshold == 3 - max(shown)
        assert [part.loss for part in found.parts] == ["one", "two"]


def test_a_sequence_of_scores_needs_no_thresholds_but_a_family_does():
    claims = tether.Claims([0.5], [1], [0, 1])
    with pytest.raises(ValueError, match="procedure = 'holm' needs thresholds chosen before"):
        tether.ltt(claims, alpha=0.1, procedure="holm")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0}, "delta must be above 0"),
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


def test_a_passing_stream_cannot_be_bet_on():
    with pytest.raises(ValueError, match="list of chunks"):
        tether.ltt(iter([np.zeros((3, 2))]), alpha=0.1, pvalue="wsr")


def test_wsr_walks_past_its_first_batch_of_candidates():
    rng = np.random.default_rng(3)
    scores = rng.random(600)
    claims = tether.Claims(scores, rng.random(600) < 0.3 + 0.7 * scores, np.arange(0, 601, 2))
    found = tether.ltt(claims, alpha=0.3, pvalue="wsr")
    swept = tether.risk.sweep(claims)
    (losses,) = swept.dense(slice(None), np.random.default_rng(0).permutation(300))
    index = walk([direct.betting(c, 0.3, 0.1, 300) for c in losses.T], 0.1)
    assert index > 64
    assert found.threshold == swept.thresholds[index]


def test_betting_does_not_believe_a_sorted_table():
    """Losses sorted by size: in that order, early wins would stand for the whole."""
    losses = np.sort(np.random.default_rng(0).random(400) < 0.5)[:, None].astype(float)
    found = tether.ltt(losses, alpha=0.3, pvalue="wsr")
    assert not found.exists


def test_the_shuffle_is_the_callers():
    losses = np.random.default_rng(1).random((80, 300)) * np.linspace(0.5, 0.1, 300)
    thresholds = [
        tether.ltt(losses, alpha=0.2, pvalue="wsr", rng=np.random.default_rng(seed)).threshold
        for seed in (0, 0, 1, 2, 3, 4)
    ]
    assert thresholds[0] == thresholds[1]
    assert len(set(thresholds)) > 1


def test_a_family_is_the_same_for_every_loss():
    losses = {name: tether.risk.sweep(np.zeros((9, size))) for name, size in (("a", 2), ("b", 3))}
    with pytest.raises(ValueError, match="needs the same thresholds for every loss"):
        tether.ltt(losses, alpha=0.1, procedure="holm")
