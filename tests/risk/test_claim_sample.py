"""What claims in parts are warned of is what the same claims in memory are warned of."""

import warnings

import numpy as np
import pytest

import tether
from tests.risk.parts import in_memory, scanned, split
from tether.risk import claim_sample
from tether.risk.claim_parts import ClaimColumns

PLAIN = ClaimColumns("score", "label", "item", None, None)


def claims(kind, n_items=400):
    """Claims whose labels or scores are right, or wrong in one way."""
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(n_items), 4)
    score = rng.random(len(item))
    label = rng.random(len(item)) < score
    if kind == "inverted":
        label = ~label
    if kind == "the labels":
        score = label.astype(float)
    if kind == "one label":
        label[:] = True
    if kind == "no information":
        label = rng.random(len(item)) < 0.9
    weight = np.ones(len(item))
    return {"score": score, "label": label, "item": item, "group": item % 2, "weight": weight}


def warned(losses, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tether.gcrc(losses, alpha=0.3, **settings)
    return found.warnings, [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("right", None),
        ("inverted", "are labels or scores inverted?"),
        ("the labels", "the scores are the labels themselves"),
        ("one label", "are these the labels? All 1,600 are 1, true"),
        ("no information", "the scores hardly tell"),
    ],
)
def test_labels_and_scores_that_look_wrong_are_warned_of(kind, words):
    columns = claims(kind)
    expected = warned(in_memory(columns))
    found = warned(scanned(split(columns, np.random.default_rng(1)), PLAIN))
    assert found == expected
    assert (words is None) == (not expected[0])
    if words is not None:
        assert expected[0][0].startswith(words)


def test_groups_that_are_not_used_are_told():
    columns = claims("right")
    expected = warned(in_memory(columns, grouped=True))
    names = ClaimColumns("score", "label", "item", "group", None)
    found = warned(scanned(split(columns, np.random.default_rng(1)), names))
    assert found == expected
    assert "these claims have groups" in found[0][0]


def test_a_sample_does_not_depend_on_the_parts(monkeypatch):
    monkeypatch.setattr(claim_sample, "MOST_CLAIMS_SAMPLED", 100)
    columns = claims("inverted")
    one, other = (
        scanned(split(columns, np.random.default_rng(seed)), PLAIN).sample for seed in (0, 1)
    )
    np.testing.assert_array_equal(one.hashes, other.hashes)
    assert (one.n_claims, one.n_supported) == (1600, columns["label"].sum())
    assert one.sizes.sum() == len(one.scores) == 100
    first, second = (
        [sorted(zip(scores, labels, strict=True)) for scores, labels in _by_item(each)]
        for each in (one, other)
    )
    assert first == second
    known = set(zip(columns["score"].tolist(), columns["label"].tolist(), strict=True))
    assert known.issuperset(zip(one.scores.tolist(), one.supported.tolist(), strict=True))


def _by_item(sample):
    cuts = np.cumsum(sample.sizes)[:-1]
    return zip(
        map(np.ndarray.tolist, np.split(sample.scores, cuts)),
        map(np.ndarray.tolist, np.split(sample.supported, cuts)),
        strict=True,
    )
