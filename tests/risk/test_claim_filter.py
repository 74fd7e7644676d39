import numpy as np
import pytest

import tether

RNG = np.random.default_rng(6)
SIZES = RNG.integers(0, 6, 400)
SCORES = RNG.random(SIZES.sum())
CLAIMS = tether.Claims(SCORES, RNG.random(len(SCORES)) < SCORES, np.append(0, np.cumsum(SIZES)))
GROUPS = np.array(["large", "middle", "small", "tiny"])[
    RNG.choice(4, 400, p=[0.7, 0.25, 0.03, 0.02])
]


def test_claims_are_filtered_by_the_threshold_of_their_group():
    found = tether.gcrc(CLAIMS, alpha=0.2, groups=GROUPS, minimum_group_size=20)
    per_claim = np.repeat(GROUPS, SIZES)
    kept = tether.filter_claims(found, SCORES, groups=per_claim)
    expected = [s >= found.for_group(g).threshold for s, g in zip(SCORES, per_claim, strict=True)]
    assert kept.tolist() == expected
    with pytest.raises(ValueError, match="'new' was not calibrated; known: 'large', 'middle'"):
        tether.filter_claims(found, [0.5], groups=["new"])
    with pytest.raises(ValueError, match="groups is required"):
        tether.filter_claims(found, [0.5])


def test_filtering_without_groups():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    assert (tether.filter_claims(found, SCORES) == (found.threshold <= SCORES)).all()
    assert tether.filter_claims(found, []).tolist() == []
    nothing = tether.gcrc(CLAIMS, alpha=0.001)
    assert not nothing.exists
    with pytest.warns(tether.PromiseWarning, match="no threshold passes at alpha 0.001"):
        assert not tether.filter_claims(nothing, SCORES).any()
    with pytest.raises(ValueError, match="scores"):
        tether.filter_claims(found, [np.nan])
    with pytest.raises(ValueError, match="calibrated without groups"):
        tether.filter_claims(found, [0.5], groups=["a"])


def test_a_number_is_not_a_selection():
    with pytest.raises(TypeError, match=r"selection must be a Selection .* got 0.5"):
        tether.filter_claims(0.5, [0.1])


def test_scores_of_another_scale_are_told():
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    claims = tether.Claims(scores, rng.random(2000) < scores, np.arange(0, 2001, 5))
    found = tether.gcrc(claims, alpha=0.2)
    with pytest.raises(ValueError, match=r"nothing is filtered: 100 of 100 scores lie outside"):
        tether.filter_claims(found, 1.1 + 0.5 * rng.random(100))
    some = np.where(np.arange(100) % 3 == 0, 1.7, rng.random(100))
    with pytest.warns(tether.AssumptionWarning, match="34 of 100 scores lie outside those of the"):
        tether.filter_claims(found, some)
    tether.filter_claims(found, rng.random(100))
    tether.filter_claims(found, 0.5 + 0.5 * rng.random(100))  # a narrower range
    tether.filter_claims(found, 1.1 + 0.5 * rng.random(5))  # too few to tell


@pytest.mark.parametrize("thresholds", [None, [0.6, 0.7, 0.8]])
def test_a_single_score_far_outside_those_of_the_calibration_is_refused(thresholds):
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    claims = tether.Claims(scores, rng.random(2000) < scores, np.arange(0, 2001, 5))
    found = tether.gcrc(claims, thresholds, alpha=0.2)
    low, high = scores.min(), scores.max()
    tether.filter_claims(found, [2 * high - low, 2 * low - high])  # just as far as it is wide
    for far in (90.0, -3.2, np.nextafter(2 * high - low, 3)):
        with pytest.raises(ValueError, match=r"scores\[1\] is .* of the calibration are 0\.\d+ to"):
            tether.filter_claims(found, [0.5, far, 0.6])
        with pytest.raises(ValueError, match=r"scores\[30\] is"):
            tether.filter_claims(found, [*rng.random(30), far])
    groups = np.repeat(["a", "b"], 200)
    by_group = tether.gcrc(claims, thresholds, alpha=0.2, groups=groups)
    with pytest.raises(ValueError, match="is it on another scale"):
        tether.filter_claims(by_group, [90.0], groups=["a"])


def test_nothing_is_kept_without_a_useful_promise():
    nonmonotone = tether.crc(CLAIMS, alpha=0.2)
    assert nonmonotone.exists
    assert not nonmonotone.useful
    with pytest.warns(tether.PromiseWarning, match="promises 1 of a bound of 1, where 0.2 was"):
        assert not tether.filter_claims(nonmonotone, SCORES).any()
    unstable = tether.gcrc(CLAIMS, alpha=0.2, loss="miss", thresholds=[0.9, 0.95])
    assert not unstable.exists
    with pytest.warns(tether.PromiseWarning, match="so everything is kept of 3 claims"):
        assert tether.filter_claims(unstable, [0.1, 0.5, 0.9]).all()


def test_a_selection_that_keeps_nothing_is_not_useful():
    claims = tether.Claims(np.full(300, 0.7), np.arange(300) % 2 == 0, range(0, 301, 3))
    found = tether.gcrc(claims, promise=0.1)
    assert found.exists
    assert found.threshold == np.inf
    assert found.keeps_nothing
    assert not found.useful
    assert "no useful promise" in str(found)
    assert not tether.Selection.from_dict(found.to_dict()).useful
    with pytest.warns(tether.PromiseWarning, match="only a threshold that keeps nothing of the"):
        assert not tether.filter_claims(found, [0.7]).any()


def test_row_indexes_of_scores_and_groups_must_agree():
    pandas = pytest.importorskip("pandas")
    found = tether.gcrc(CLAIMS, alpha=0.2, groups=GROUPS, minimum_group_size=20)
    table = pandas.DataFrame({"score": [0.5, 0.9, 0.7], "group": ["large", "middle", "large"]})
    mixed = table.sort_values("score")
    with pytest.raises(ValueError, match="groups and scores have different row indexes"):
        tether.filter_claims(found, mixed.score, groups=table.group)
    kept = tether.filter_claims(found, mixed.score, groups=mixed.group)
    thresholds = [found.for_group(name).threshold for name in mixed.group]
    assert kept.tolist() == (mixed.score.to_numpy() >= thresholds).tolist()


def test_groups_for_a_selection_without_groups_are_refused_in_words():
    claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    with pytest.raises(ValueError, match="it was calibrated without groups"):
        tether.filter_claims(tether.gcrc(claims, alpha=0.1), [0.9], groups=["neuro"])


def test_nothing_is_kept_of_groups_without_a_useful_promise():
    groups = np.where(np.arange(400) < 300, "served", "refused")
    supported = np.where(np.repeat(groups, SIZES) == "served", CLAIMS.supported, False)
    claims = tether.Claims(SCORES, supported, CLAIMS.offsets)
    found = tether.gcrc(claims, [0.5, 0.7, 0.9], alpha=0.2, groups=groups)
    assert found.refused_groups == ("refused",)
    assert found.for_group("refused").threshold == 0.9  # which some claims reach
    per_claim = np.repeat(groups, SIZES)
    with pytest.warns(tether.PromiseWarning, match="refused: no useful promise, so nothing is"):
        kept = tether.filter_claims(found, SCORES, groups=per_claim)
    assert not kept[per_claim == "refused"].any()
    served = per_claim == "served"
    assert kept[served].tolist() == (found.for_group("served").threshold <= SCORES[served]).tolist()


@pytest.mark.parametrize("kind", ["U", "S", "O"])
def test_the_names_of_groups_are_those_of_the_selection_whatever_type_they_have(kind):
    groups = np.where(np.arange(400) < 300, "served", "äußerst")
    if kind == "S":
        groups = np.char.encode(groups, "utf-8")
    groups = groups.astype(object) if kind == "O" else groups
    of = np.repeat(groups, SIZES)
    served = np.repeat(np.arange(400) < 300, SIZES)
    claims = tether.Claims(SCORES, np.where(served, CLAIMS.supported, False), CLAIMS.offsets)
    found = tether.gcrc(claims, [0.5, 0.7, 0.9], alpha=0.2, groups=groups)
    assert found.refused_groups == ("äußerst",)
    with pytest.warns(tether.PromiseWarning, match="äußerst: no useful promise"):
        kept = tether.filter_claims(found, SCORES, groups=of)
    assert kept.tolist() == (served & (found.for_group("served").threshold <= SCORES)).tolist()


def test_a_kept_share_that_chance_does_not_explain_is_told_by_group():
    rng = np.random.default_rng(1)
    scores, groups = rng.random(4000), np.repeat(["a", "b"], 2000)
    claims = tether.Claims(scores, rng.random(4000) < 0.5 + scores / 2, np.arange(0, 4001, 4))
    found = tether.gcrc(claims, alpha=0.2, groups=groups[::4])
    new, of = rng.random(2000), np.repeat(["a", "b"], 1000)
    tether.filter_claims(found, new, groups=of)
    shifted = np.where(of == "a", new**0.2, new)
    with pytest.warns(
        tether.AssumptionWarning, match="a: .* of 1,000 claims are kept here"
    ) as seen:
        tether.filter_claims(found, shifted, groups=of)
    assert len(seen) == 1
    tether.filter_claims(found, shifted[:40], groups=of[:40])  # too few to tell


def test_a_kept_share_of_items_that_stand_or_fall_together_is_no_false_alarm():
    """All claims of an item have almost one score, so that they are kept or dropped together."""
    rng = np.random.default_rng(2)

    def draw(n_items):
        return (np.repeat(rng.random(n_items), 10) + 1e-6 * rng.random(10 * n_items)).clip(0, 1)

    for _ in range(200):
        scores = draw(200)
        claims = tether.Claims(scores, rng.random(2000) < scores, np.arange(0, 2001, 10))
        found = tether.gcrc(claims, [0.3, 0.5, 0.7], alpha=0.3)
        tether.filter_claims(found, draw(100))  # warnings are errors


def test_a_kept_share_of_items_of_very_unequal_size_is_no_false_alarm():
    """Few long items beside many short ones, each kept or dropped as a whole."""
    rng = np.random.default_rng(3)

    def draw(n_items):
        sizes = np.where(rng.random(n_items) < 0.02, 200, 4)
        scores = np.repeat(rng.random(n_items), sizes)
        return (scores + 1e-6 * rng.random(len(scores))).clip(0, 1), np.append(0, sizes.cumsum())

    for _ in range(100):
        scores, offsets = draw(1000)
        claims = tether.Claims(scores, rng.random(len(scores)) < scores, offsets)
        found = tether.gcrc(claims, [0.3, 0.5, 0.7], alpha=0.3)
        assert found.kept.squared_sizes == np.square(np.diff(offsets)).sum()
        tether.filter_claims(found, draw(500)[0])  # warnings are errors
        tether.filter_claims(found, np.full(200, scores.min()))  # one long item, dropped
    with pytest.warns(tether.AssumptionWarning, match="which is more than chance explains"):
        tether.filter_claims(found, 1 - 0.2 * draw(500)[0])
