"""What a threshold keeps, against a count of every claim."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tether
from tether._core import records
from tether.risk import kept_share
from tether.risk.kept_share import KeptShare, together

METHODS = (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt)


def random_claims(seed, items):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, items)
    sizes[0] = 3  # claims are never all empty
    scores = np.round(rng.random(sizes.sum()), 1)  # with ties
    return tether.Claims(
        scores, rng.random(len(scores)) < 0.2 + 0.8 * scores, np.append(0, sizes.cumsum())
    )


def counted(claims, threshold):
    """The definition, claim by claim."""
    kept = emptied = items = squares = 0
    for first, stop in zip(claims.offsets[:-1], claims.offsets[1:], strict=True):
        scores = claims.scores[first:stop].tolist()
        left = [score for score in scores if score >= threshold]
        kept += len(left)
        items += bool(scores)
        emptied += bool(scores) and not left
        squares += len(scores) ** 2
    ends = (claims.scores.min(), claims.scores.max()) if items else (None, None)
    return KeptShare("claims", len(claims.scores), kept, items, emptied, squares, *ends)


@pytest.fixture(params=[None, 8], ids=["blocks of many", "blocks of eight"])
def block_size(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(kept_share, "CLAIMS_PER_BLOCK", request.param)
        monkeypatch.setattr(kept_share, "ITEMS_PER_BLOCK", request.param)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the same for all examples
)
@given(
    seed=st.integers(0, 10**6),
    items=st.integers(1, 40),
    alpha=st.floats(0.02, 0.9),
    loss=st.sampled_from(["fdr", "any_false", "miss", ["fdr", "any_false"]]),
    method=st.sampled_from(METHODS),
    thresholds=st.sampled_from([None, [0.2, 0.5, 0.7], [-1.0, 0.5, np.inf]]),
)
@pytest.mark.usefixtures("block_size")
def test_counts_are_those_of_the_definition(seed, items, alpha, loss, method, thresholds):
    claims = random_claims(seed, items)
    found = method(claims, thresholds, alpha=alpha, loss=loss)
    assert found.kept == counted(claims, found.threshold)
    for part in (found, *found.by_loss):
        shares = [counted(claims, at).share for at in part.curve_thresholds]
        np.testing.assert_allclose(part.curve_kept, shares, rtol=1e-12)
    again = tether.Selection.from_dict(records.encode(found.to_dict()))
    assert again.kept == found.kept
    np.testing.assert_array_equal(again.curve_kept, found.curve_kept)


@pytest.mark.parametrize("loss", ["false_discovery", "false_positive", "false_negative"])
@pytest.mark.parametrize("thresholds", [None, [0.1, 0.4, 0.8]])
def test_of_labels_all_items_count_whatever_the_rate_is_of(loss, thresholds):
    rng = np.random.default_rng(4)
    scores = np.round(rng.random(300), 2)
    labels = tether.ScoredLabels(scores, rng.random(300) < scores)
    found = tether.crc(labels, thresholds, alpha=0.3, loss=loss)
    selected = int((scores >= found.threshold).sum())
    ends = scores.min(), scores.max()
    assert found.kept == KeptShare("items", 300, selected, 300, 300 - selected, 300, *ends)
    assert str(found.kept) == f"{selected} of 300 calibration items ({selected / 3:.3g} %)"


def test_groups_add_up():
    claims = random_claims(7, 200)
    found = tether.gcrc(claims, alpha=0.3, groups=np.arange(200) % 3)
    parts = [part.kept for part in found.groups.values()]
    assert found.kept == together(parts)
    assert found.kept.kept == sum(part.kept for part in parts)
    assert found.kept.total == len(claims.scores)


def test_what_is_not_known_of_a_part_is_not_known_of_the_whole():
    known = KeptShare("claims", 10, 5, 4, 1, 30)
    assert together([known, None]) is None
    assert together([known, KeptShare("items", 3, 2, 3, 1, 3)]) is None
    assert together([]) is None


def test_a_loss_matrix_does_not_tell():
    found = tether.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2)
    assert found.kept is None
    assert not len(found.curve_kept)
    assert np.isnan(found.to_frame()["kept"]).all()
    assert "kept" not in str(found)


def test_nothing_to_keep():
    share = KeptShare("claims", 0, 0, 0, 0, 0)
    assert np.isnan(share.share)
    assert str(share) == "0 of 0 calibration claims; nothing is left of 0 of 0 items"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kept": 10**6}, "larger than the whole"),
        ({"emptied": 0, "kept": 5}, "keeps something"),
        ({"total": -1}, "total must be an integer"),
        ({"kept": 2.5}, "kept must be an integer"),
        ({"unit": "sentences"}, "unit must be"),
    ],
)
def test_forged_counts_are_refused(change, message):
    content = tether.gcrc(random_claims(7, 200), alpha=0.3).to_dict()
    content["kept"] = content["kept"] | change
    with pytest.raises(ValueError, match=message):
        tether.Selection.from_dict(content)


def test_forged_curves_and_groups_are_refused():
    found = tether.gcrc(random_claims(7, 200), alpha=0.3)
    one_less = dataclasses.replace(found.kept, kept=found.kept.kept - 1)
    with pytest.raises(ValueError, match="but curve_kept has"):
        tether.Selection.from_dict(dataclasses.replace(found, kept=one_less).to_dict())
    for shares, message in (
        (found.curve_kept[::-1], "fall as the threshold rises"),
        (found.curve_kept[1:], "not one for each"),
        (found.curve_kept * 2, "must be shares"),
    ):
        with pytest.raises(ValueError, match=message):
            tether.Selection.from_dict(dataclasses.replace(found, curve_kept=shares).to_dict())
    with pytest.raises(ValueError, match="kept is not"):
        tether.Selection.from_dict(dataclasses.replace(found, kept=None).to_dict())
    grouped = tether.gcrc(random_claims(7, 200), alpha=0.3, groups=np.arange(200) % 2)
    other = dataclasses.replace(grouped.kept, kept=grouped.kept.kept - 1)
    with pytest.raises(ValueError, match="the groups give"):
        tether.Selection.from_dict(dataclasses.replace(grouped, kept=other).to_dict())
