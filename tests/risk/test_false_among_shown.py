"""The share of false claims among all that are shown, as an expected loss."""

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tests.scale import scaled
from tether.risk.claim_losses import claim_loss, needed_shown
from tether.risk.shown_room import items_for_room

MOST = 8
ITEMS = st.lists(
    st.lists(st.tuples(brute_force.SCORES, st.booleans()), max_size=MOST), min_size=1, max_size=30
).filter(any)
GRID = st.lists(brute_force.SCORES, min_size=1, max_size=5, unique=True).map(sorted)


def exact_loss(item, threshold, share, most=MOST):
    kept = [true for score, true in item if score >= threshold]
    return share + (kept.count(False) - share * len(kept)) / most


def as_claims(items):
    flat = [claim for item in items for claim in item]
    offsets = np.cumsum([0, *map(len, items)])
    return tether.Claims([s for s, _ in flat], [t for _, t in flat], offsets)


@settings(max_examples=scaled(100), deadline=None)
@given(items=ITEMS, grid=GRID, share=st.fractions("1/20", "19/20", max_denominator=20))
@pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
def test_the_walk_of_gcrc_is_that_of_exact_fractions(items, grid, share):
    loss = tether.FalseAmongShown(float(share), most_claims=MOST)
    rows = [[exact_loss(item, t, share) for t in grid[::-1]] for item in items]
    swept = tether.risk.sweep(as_claims(items), grid, loss=loss)
    sums = [float(sum(column)) for column in zip(*rows, strict=True)]
    assert swept.sums == pytest.approx(sums)
    found = tether.gcrc(as_claims(items), grid, loss=loss, promise=float(share))
    if found.exists:
        index = grid[::-1].index(found.threshold)
        assert found.risk == pytest.approx(float(brute_force.conservative(rows, index)))
        assert found.risk <= found.promise + 1e-12 <= float(share) + 2e-12
        safer = range(index + 1)
        assert all(brute_force.conservative(rows, j) <= share for j in safer)
    for rows_at in zip(*rows, strict=True):  # the mean is at most the share, and so is the ratio
        assert all(0 <= value <= 1 for value in rows_at)
    for column, t in enumerate(grid[::-1]):
        kept = [true for item in items for score, true in item if score >= t]
        mean = Fraction(sum(row[column] for row in rows)) / len(rows)
        assert (mean <= share) == (kept.count(False) <= share * len(kept))
        if mean <= share:  # what the promise says in words
            assert kept.count(False) <= mean * len(kept)


@pytest.mark.parametrize("supported", [[1, 1, 0, 1], [0, 0], [1] * MOST, [0] * MOST])
def test_the_fast_loss_is_the_function_of_labels_and_kept(supported):
    loss = tether.FalseAmongShown(0.1, most_claims=MOST)
    labels = np.array(supported, dtype=bool)
    kept = np.tri(len(labels), dtype=bool)
    fast = claim_loss(loss)
    assert fast.after(labels[None])[0].tolist() == [loss(labels, each) for each in kept]
    assert fast.before(labels[None]).tolist() == [loss(labels, np.zeros_like(labels))] == [0.1]
    false = np.count_nonzero(~labels)
    assert loss(labels, kept[-1]) == pytest.approx(0.1 + (false - 0.1 * len(labels)) / MOST)


def test_so_many_claims_must_be_shown_before_the_safest_threshold_can_pass():
    """All that is shown is true: at 0.1 and 8 claims, 72 must be shown."""
    assert needed_shown(0.1, 8) == 72
    loss = tether.FalseAmongShown(0.1, most_claims=8)
    found = {}
    for shown in (71, 72, 73):
        scores = np.where(np.arange(400) < shown, 0.9, 0.1)
        claims = tether.Claims(scores, np.arange(400) < 399, np.arange(0, 401, 4))
        swept = tether.risk.sweep(claims, [0.5], loss=loss)
        found[shown] = swept.risks()[0] <= 0.1 + 1e-12
        if shown == 71:
            text = tether.gcrc(claims, [0.5], loss=loss, promise=0.1).warnings[-1]
            assert "shows 71 claims, 0 of them false" in text
            assert "room for 7.1 more at a share of 0.1; the next item needs 7.2 of them" in text
    assert found == {71: False, 72: True, 73: True}


def test_what_a_promise_adds_is_told_in_claims_where_it_refuses():
    """The conservative risk of the largest threshold passes, and the promise does not."""
    rng = np.random.default_rng(0)
    scores = rng.random(8400)
    true = rng.random(8400) < scores**0.3
    claims = tether.Claims(scores, true, range(0, 8401, 7))
    loss = tether.FalseAmongShown(0.1, most_claims=7)
    grid = np.linspace(0.4, 0.985, 40)
    found = tether.gcrc(claims, grid, promise=0.1, loss=loss)
    assert not found.exists
    assert found.risk < 0.1
    text = found.warnings[-1]
    numbers = re.findall(r"(?:for|needs|nothing passes|of the threshold) ([0-9.]+[0-9])", text)
    room, next_item, existence, stability = map(float, numbers)
    shown = scores >= 0.985
    assert room == pytest.approx(0.1 * shown.sum() - (shown & ~true).sum())
    assert next_item == pytest.approx(0.9 * 7)
    assert next_item < room < next_item + existence + stability
    assert "above" not in str(found)
    rooms = [0.1 * (scores >= t).sum() - ((scores >= t) & ~true).sum() for t in grid]
    best = f"There is more at lower ones, {max(rooms):,.4g} at {grid[np.argmax(rooms)]:g}: let"
    assert best in text


@pytest.mark.parametrize(
    ("true_below", "advice"),
    [
        (0.97, "There is more at lower ones"),
        (0.7, "More items, or a smaller limit most_claims, help"),
    ],
)
def test_a_lower_largest_threshold_is_advised_only_where_it_has_more_room(true_below, advice):
    """Of what scores below 0.9 a part is true; above it 99 % are, too few for 0.9 · 20."""
    rng = np.random.default_rng(1)
    scores = rng.random(4000)
    true = rng.random(4000) < np.where(scores < 0.9, true_below, 0.99)
    claims = tether.Claims(scores, true, range(0, 4001, 10))
    loss = tether.FalseAmongShown(0.1, most_claims=200)
    found = tether.gcrc(claims, np.linspace(0.2, 0.9, 41), promise=0.1, loss=loss)
    assert not found.exists
    assert advice in found.warnings[0]
    assert ("lower" in found.warnings[0]) == ("lower" in advice)


def test_so_many_items_as_are_said_to_be_needed_are_usually_enough():
    rng = np.random.default_rng(2)
    loss = tether.FalseAmongShown(0.1, most_claims=12)

    def found(n_items):
        scores = rng.random(5 * n_items)
        true = rng.random(len(scores)) < 0.8 + 0.2 * scores
        claims = tether.Claims(scores, true, range(0, len(scores) + 1, 5))
        return tether.gcrc(claims, np.linspace(0.3, 0.8, 21), promise=0.1, loss=loss)

    needed = items_for_room(0.1, found(40_000).safe_loss)
    assert needed == pytest.approx(3 * 12 / (5 * 0.2 * (0.1 - 0.02)), rel=0.1)
    assert np.mean([found(needed).useful for _ in range(20)]) > 0.7
    assert np.mean([found(needed // 3).useful for _ in range(20)]) < 0.6
    assert items_for_room(0.1, 0.1) == np.inf


def world(rng, n_items):
    """Answers of up to four claims, of which hard ones are shorter; scores know the truth."""
    sizes = rng.integers(1, 5, n_items)
    easy = np.repeat(rng.random(n_items) < 0.6, sizes)
    true = rng.random(sizes.sum()) < np.where(easy, 0.97, 0.5)
    scores = np.clip(0.3 * true + 0.3 * easy + 0.4 * rng.random(len(true)), 0, 1)
    return tether.Claims(scores, true, np.append(0, np.cumsum(sizes)))


def weak_scores(rng, n_items):
    """Answers whose claims are right or wrong together, and scores that tell little."""
    sizes = rng.integers(1, 5, n_items)
    good = np.repeat(rng.random(n_items), sizes)
    scores = rng.random(sizes.sum())
    true = rng.random(len(scores)) < 0.62 + 0.36 * scores**2 + 0.25 * (good - 0.5)
    return tether.Claims(scores, true, np.append(0, np.cumsum(sizes)))


@pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
def test_the_share_that_is_shown_false_stays_below_the_promise_and_without_care_does_not():
    """False claims minus the share of those shown, per answer, expected at what is served."""
    rng, share, grid = np.random.default_rng(0), 0.2, np.linspace(0, 0.6, 13)
    loss, large = tether.FalseAmongShown(share, most_claims=4), weak_scores(rng, 100_000)
    excess = {}
    for threshold in grid:
        kept = large.scores >= threshold
        excess[threshold] = ((kept & ~large.supported).sum() - share * kept.sum()) / large.n_items
    careful, careless = [], []
    for _ in range(scaled(400)):
        swept = tether.risk.sweep(weak_scores(rng, 80), grid, loss=loss)
        found = tether.gcrc(swept, promise=share)
        careful.append(excess[found.threshold] if found.useful else 0.0)
        passing = np.flatnonzero(swept.risks(conservative=False) <= share)
        careless.append(excess[grid[::-1][passing[-1]]] if len(passing) else 0.0)
    assert np.mean(careful) <= 3 * np.std(careful) / len(careful) ** 0.5
    assert np.mean(careless) > 3 * np.std(careless) / len(careless) ** 0.5
    assert np.count_nonzero(careful) > 0.1 * len(careful)


def test_what_it_needs_is_asked_for():
    claims = world(np.random.default_rng(0), 200)
    loss = tether.FalseAmongShown(0.1, most_claims=4)
    with pytest.raises(ValueError, match=r"thresholds are needed .* = 36 claims must be shown"):
        tether.gcrc(claims, promise=0.1, loss=loss)
    for options in ({"alpha": 0.1}, {"promise": 0.2}):
        with pytest.raises(ValueError, match=r"pass promise=0\.1, and neither another number"):
            tether.gcrc(claims, [0.5, 0.6], loss=loss, **options)
    with pytest.raises(ValueError, match="most_claims = 3, but an item has 4 claims"):
        tether.gcrc(claims, [0.5], promise=0.1, loss=tether.FalseAmongShown(0.1, most_claims=3))
    for share, most in ((0.0, 4), (1.0, 4), (10, 4), (0.1, 0)):
        with pytest.raises(ValueError, match="must be"):
            tether.FalseAmongShown(share, most)


@pytest.mark.filterwarnings("ignore:are these the labels")
def test_a_bound_below_one_is_refused_though_no_item_of_the_calibration_reaches_one(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    claims = tether.Claims(np.arange(400) / 400, np.ones(400), np.arange(0, 401, 2))
    items = np.repeat(np.arange(200), 2)
    table = {"s": claims.scores, "t": claims.supported, "i": items}
    parquet.write_table(pyarrow.table(table), tmp_path / "claims.parquet")
    scanned = tether.Claims.scan(tmp_path, scores="s", supported="t", items="i")
    losses = (tether.FalseAmongShown(0.3, most_claims=2), "fdr", "any_false")
    for each in (claims, scanned):
        for loss in losses:
            name = loss if isinstance(loss, str) else "false_among_shown"
            with pytest.raises(ValueError, match=f"bound must be at least 1 for {name!r}, got 0.9"):
                tether.gcrc(each, [0.1, 0.5], promise=0.3, loss=loss, bound=0.9)
        assert tether.gcrc(each, [0.1, 0.5], promise=0.3, loss=losses[0], bound=2).bound == 2


def test_without_a_stability_it_is_said_why_nothing_is_promised():
    claims, grid = world(np.random.default_rng(0), 2000), np.linspace(0.2, 0.7, 11)
    loss, none = tether.FalseAmongShown(0.1, most_claims=4), "the stability of the threshold is not"
    weights = np.linspace(1, 2, 2000)
    found = tether.gcrc(claims, grid, promise=0.1, loss=loss, weights=weights)
    assert not found.exists
    assert found.warnings[-1].endswith(f"{none} measured for weighted items")
    assert found.risk < found.alpha
    assert "above alpha" not in found.summary()
    found = tether.gcrc(claims, grid, promise=0.2, loss="fdr", measure_stability=False)
    assert found.warnings[-1].endswith(f"{none} measured as you asked; monotonized_crc needs none")
    found = tether.monotonized_crc(claims, grid, promise=0.2, loss="fdr")
    assert "stability" not in " ".join(found.warnings)


def test_the_result_counts_what_is_shown_false_and_says_so_in_words():
    claims = world(np.random.default_rng(0), 2000)
    loss = tether.FalseAmongShown(0.1, most_claims=4)
    groups = np.where(np.arange(2000) % 3, "a", "b")
    grid = np.linspace(0.2, 0.7, 11)
    for found in (
        tether.gcrc(claims, grid, promise=0.1, loss=loss),
        tether.gcrc(claims, grid, promise=0.1, loss=loss, groups=groups),
    ):
        assert found.useful
        by_claim = np.repeat(groups, np.diff(claims.offsets)) if found.groups else None
        kept = tether.filter_claims(found, claims.scores, groups=by_claim)
        false = int((kept & ~claims.supported).sum())
        text = " ".join(str(found).split())
        assert f"{false:,} of the {kept.sum():,} claims shown are false" in text
        assert "at most 0.1 of all claims shown are false; other values are no shares" in text
        assert "(not a share of claims)" in text or found.groups
        assert "an item that shows nothing" not in text
        assert found.settings == {"share": 0.1, "most_claims": 4}
        assert tether.Selection.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert found.groups["a"].statement.startswith("expected number of false claims shown, as a ")


def test_claims_in_parts_give_the_same(tmp_path):
    pandas = pytest.importorskip("pandas")
    claims = world(np.random.default_rng(1), 600)
    items = np.repeat(np.arange(600), np.diff(claims.offsets))
    table = pandas.DataFrame({"s": claims.scores, "t": claims.supported, "i": items})
    for name, (first, stop) in enumerate(pairwise((0, 200, 450, 600))):
        table[(items >= first) & (items < stop)].to_parquet(tmp_path / f"{name}.parquet")
    loss, grid = tether.FalseAmongShown(0.1, most_claims=4), np.linspace(0.2, 0.7, 11)
    scanned = tether.Claims.scan(tmp_path, scores="s", supported="t", items="i")
    with pytest.raises(ValueError, match="thresholds are needed"):
        tether.gcrc(scanned, promise=0.1, loss=loss)
    inside = tether.gcrc(claims, grid, promise=0.1, loss=loss)
    parts = tether.gcrc(scanned, grid, promise=0.1, loss=loss)
    assert inside.useful
    assert (parts.threshold, parts.settings) == (inside.threshold, inside.settings)
    assert parts.promise == pytest.approx(inside.promise)
