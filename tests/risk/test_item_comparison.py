"""Whether new items are like those of the calibration: the tests against all choices of items."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.scale import scaled
from tether.risk.item_comparison import (
    FALSE_ALARMS,
    items_by_part,
    log_evidence_of_more,
    log_tail_of_few,
    unlike_items,
)

COUNTS = st.lists(st.integers(0, 5), min_size=2, max_size=9)


@settings(max_examples=scaled(60), deadline=None)
@given(pool=COUNTS, data=st.data())
def test_the_tail_is_the_share_of_choices_with_so_few(pool, data):
    count = data.draw(st.integers(1, len(pool) - 1))
    special = [value > 0 for value in pool]
    shown = [sum(special[k] for k in new) for new in combinations(range(len(pool)), count)]
    few = data.draw(st.sampled_from(shown))
    tail = log_tail_of_few(few, count, sum(special) - few, len(pool) - count)
    assert math.exp(tail) == pytest.approx(np.mean([each <= few for each in shown]))


@settings(max_examples=scaled(60), deadline=None)
@given(pool=COUNTS, data=st.data())
def test_the_mean_evidence_over_all_choices_is_at_most_one(pool, data):
    count = data.draw(st.integers(1, len(pool) - 1))
    evidence = []
    for new in combinations(range(len(pool)), count):
        mine = np.array([pool[k] for k in new])
        others = sum(pool) - int(mine.sum())
        evidence.append(math.exp(log_evidence_of_more(mine, others, len(pool) - count)))
    assert np.mean(evidence) <= 1 + 1e-9


def sizes_of(kind, rng, count):
    """Few very long items beside short ones, a long tail, or all the same."""
    if kind == "few long":
        return np.where(rng.random(count) < 0.02, 200, 4)
    if kind == "tail":
        return np.minimum(1 + 3 * rng.pareto(1.1, count), 400).astype(int)
    return np.full(count, 10)


def draw(kind, rng, count):
    """Items that are kept or dropped as a whole, of which the longer have lower scores."""
    sizes = sizes_of(kind, rng, count)
    easy = rng.random(count)
    easy = np.where(sizes > np.median(sizes), 0.3 * easy, 0.3 + 0.7 * easy)
    item = np.repeat(np.arange(count), sizes)
    return easy[item] + 1e-6 * rng.random(len(item)), item


@pytest.mark.parametrize("kind", ["few long", "tail", "same"])
def test_items_that_are_kept_or_dropped_together_are_no_false_alarm(kind):
    """Of 150 comparisons, each with a threshold chosen on 60 items; 0.15 are allowed."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(50):
        scores, item = draw(kind, rng, 60)
        offsets = np.append(0, np.bincount(item).cumsum())
        claims = tether.Claims(scores, rng.random(len(scores)) < 0.5 + scores / 2, offsets)
        found = tether.crc(claims, alpha=0.3, loss="any_false")
        if not found.useful:
            continue
        for count in (5, 60, 300):
            new, of = draw(kind, rng, count)
            kept = new >= found.threshold
            counts = np.array([np.bincount(of), np.bincount(of, kept).astype(int)])
            alarms += unlike_items(found, (len(kept), int(kept.sum())), counts, 1)
    assert alarms <= 1


def service(most=8, seed=0):
    """As in the how-to: answers of three to eight claims, 800 of them."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(800), rng.integers(3, 9, size=800))
    true = rng.random(len(item)) < 0.85
    score = 1 / (1 + np.exp(-(2 * true + rng.normal(size=len(item)))))
    claims = tether.Claims.from_table(score, true, item)
    loss = tether.FalseAmongShown(0.1, most_claims=most)
    return tether.gcrc(claims, np.linspace(0.5, 0.9, 41), promise=0.1, loss=loss), score, item


def test_other_scores_are_told_from_five_items_on_and_without_items_by_the_limit():
    found, score, item = service()
    few = item < 5
    with pytest.warns(tether.AssumptionWarning, match="nothing is left of 5 of 5 items here and"):
        tether.filter_claims(found, np.full(few.sum(), 0.3), items=item[few])
    with pytest.warns(tether.AssumptionWarning, match=r"0.0% of 52 claims are kept here"):
        tether.filter_claims(found, np.full(52, 0.3))
    tether.filter_claims(found, np.full(8, 0.3))  # which one item may have: warnings are errors
    some = item < 150
    tether.filter_claims(found, score[some], items=item[some])
    with pytest.warns(tether.AssumptionWarning, match="of 150 items here"):
        tether.filter_claims(found, score[some] ** 4, items=item[some])
    assert FALSE_ALARMS <= 0.001


def test_more_that_is_kept_is_told_as_well():
    rng = np.random.default_rng(1)
    scores, item = rng.random(4000), np.repeat(np.arange(1000), 4)
    claims = tether.Claims.from_table(scores, rng.random(4000) < scores, item)
    found = tether.gcrc(claims, alpha=0.25)
    some = item < 60
    tether.filter_claims(found, scores[some], items=item[some])
    with pytest.warns(tether.AssumptionWarning, match="nothing is left of 0 of 60 items here"):
        tether.filter_claims(found, scores[some] ** 0.1, items=item[some])


def test_an_item_with_more_claims_than_the_limit_is_refused_by_name():
    found, _, _ = service()
    with pytest.raises(ValueError, match="item 'long' has 9 claims, above most_claims = 8"):
        tether.filter_claims(found, np.full(9, 0.9), items=["long"] * 9)
    assert tether.filter_claims(found, np.full(8, 0.95), items=["long"] * 8).all()
    with pytest.raises(ValueError, match="items has 3 rows"):
        tether.filter_claims(found, np.full(4, 0.9), items=[1, 2, 3])


def test_items_are_counted_by_group():
    counts = {"x": ("a", 3, 2), "y": ("a", 1, 0), "z": ("b", 2, 2)}
    by_part = items_by_part(counts)
    assert by_part["a"].tolist() == [[3, 1], [2, 0]]
    assert by_part["b"].tolist() == [[2], [2]]


def test_one_group_may_be_named_for_all_claims_of_a_call():
    rng = np.random.default_rng(1)
    scores = rng.random(2000)
    claims = tether.Claims(scores, rng.random(2000) < 0.5 + scores / 2, range(0, 2001, 4))
    found = tether.gcrc(claims, alpha=0.3, groups=np.repeat(["a", "b"], 250))
    new = [0.2, 0.6, 0.9]
    by_name = tether.filter_claims(found, new, groups="b")
    assert by_name.tolist() == tether.filter_claims(found, new, groups=["b"] * 3).tolist()
    assert tether.filter_claims(found, [], groups="b").tolist() == []
