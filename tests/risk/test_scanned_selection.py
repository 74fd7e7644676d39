"""Claims in parts give the answer of claims in memory: the same threshold to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import parts as in_parts
from tests.scale import scaled
from tether.risk import item_blocks, item_names, scanned_sweep

pytestmark = pytest.mark.filterwarnings("ignore:these claims have groups")
"""Rows of all tests have groups, also where they are not used."""

METHODS = {
    "gcrc": tether.gcrc,
    "crc": tether.crc,
    "monotonized_crc": tether.monotonized_crc,
    "ltt": tether.ltt,
}


def at_least_a_tenth(supported, kept):
    return 0.1 + 0.9 * float((~supported & kept).sum() / max(kept.sum(), 1))


def outcome(method, claims, options):
    try:
        return METHODS[method](claims, **options)
    except (ValueError, TypeError) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore:are these the labels")
@settings(max_examples=scaled(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    method=st.sampled_from(list(METHODS)),
    loss=st.sampled_from(["fdr", "any_false", "miss", at_least_a_tenth, ["fdr", "any_false"]]),
    target=st.sampled_from(["alpha", "promise"]),
    level=st.sampled_from([0.02, 0.05, 0.1, 0.2, 0.3, 0.5]),
    weighted=st.sampled_from([False, False, True]),
    grouped=st.sampled_from([False, False, True]),
    fixed=st.sampled_from([False, False, True]),
    bins=st.sampled_from([4, 16, 64, 8192]),
    collected=st.sampled_from([1, 8, 64, 1 << 20]),
    block=st.sampled_from([1, 10, 1 << 16]),
    hashes=st.sampled_from([20, 1 << 21]),
)
def test_every_method_gives_the_answer_of_memory_in_any_order_of_parts(
    seed, method, loss, target, level, weighted, grouped, fixed, bins, collected, block, hashes
):
    rng = np.random.default_rng(seed)
    columns = in_parts.columns_of(rng)
    parts = in_parts.split(columns, rng)
    memory = in_parts.in_memory(columns, grouped=grouped)
    claims = in_parts.scanned(parts)
    options = {"loss": loss, target: level}
    if fixed:
        chosen = rng.choice(np.append(columns["score"], np.inf), 20)
        options["thresholds"] = np.unique(chosen)
    expected, given_parts = dict(options), dict(options)
    if weighted and method != "ltt":
        expected["weights"] = in_parts.weight_of_items(columns)
        given_parts["weights"] = claims.weights
        if seed % 2:
            expected["test_weight"] = given_parts["test_weight"] = 5.0
    if grouped:
        expected["groups"], given_parts["groups"] = memory.groups, claims.groups
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanned_sweep, "N_BINS", bins)
        patch.setattr(scanned_sweep, "COLLECTED_CLAIMS", collected)
        patch.setattr(item_blocks, "CLAIMS_PER_ITEM_BLOCK", block)
        patch.setattr(item_names, "HASHES_AT_ONCE", hashes)
        found = outcome(method, claims, given_parts)
        shuffled = outcome(method, in_parts.scanned(parts[::-1]), given_parts)
    reference = outcome(method, memory, expected)
    if isinstance(reference, type):
        assert found is reference
        return
    in_parts.assert_same(found, reference)
    assert repr(found.to_dict()) == repr(shuffled.to_dict())


def test_a_wrong_bound_on_a_bin_is_noticed(monkeypatch):
    """The comparison can fail: bins that count as passing where they may not change the answer."""

    def careless(bins, reach):
        return np.zeros(len(bins.largest), dtype=bool)

    monkeypatch.setattr(scanned_sweep, "doubtful", careless)
    monkeypatch.setattr(scanned_sweep, "N_BINS", 4)
    differs = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        columns = in_parts.columns_of(rng, 200)
        claims = in_parts.scanned(in_parts.split(columns, rng))
        found = tether.crc(claims, alpha=0.2, loss="any_false")
        expected = tether.crc(in_parts.in_memory(columns), alpha=0.2, loss="any_false")
        differs += found.threshold != expected.threshold
    assert differs >= 2


def test_many_claims_need_few_passes(monkeypatch):
    rng = np.random.default_rng(0)
    n_items = 20_000
    item = np.repeat(np.arange(n_items), 5)
    score = rng.random(len(item))
    columns = {"score": score, "label": rng.random(len(item)) < score, "item": item}
    columns["group"], columns["weight"] = np.zeros(len(item), int), np.ones(len(item))
    monkeypatch.setattr(scanned_sweep, "COLLECTED_CLAIMS", 1 << 12)
    parts = [
        {k: v[i : i + 10_000] for k, v in columns.items()} for i in range(0, len(item), 10_000)
    ]
    claims = in_parts.scanned(parts)
    found = tether.gcrc(claims, alpha=0.1)
    in_parts.assert_same(found, tether.gcrc(in_parts.in_memory(columns), alpha=0.1))
    assert claims.parts.passes <= 5  # a survey, bins, finer bins, scores, items
    assert found.n_candidates < len(item) / 4


def test_where_sums_stay_near_the_limit_for_long_the_stability_is_not_measured(monkeypatch):
    """Losses that rise and fall along a plateau: the threshold is exact, the promise says so."""
    monkeypatch.setattr(scanned_sweep, "COLLECTED_CLAIMS", 20)
    monkeypatch.setattr(scanned_sweep, "N_BINS", 8)
    n_items = 400  # each has a false claim at the top, made up for by a true one soon below
    score = np.column_stack([1 - np.arange(n_items) / 500, 1 - (np.arange(n_items) + 3.5) / 500])
    columns = {
        "score": score.ravel(),
        "label": np.tile([False, True], n_items),
        "item": np.repeat(np.arange(n_items), 2),
        "group": np.zeros(2 * n_items, int),
        "weight": np.ones(2 * n_items),
    }
    parts = [{k: v[i : i + 100] for k, v in columns.items()} for i in range(0, 800, 100)]
    expected = tether.gcrc(in_parts.in_memory(columns), alpha=0.3)
    found = tether.gcrc(in_parts.scanned(parts), alpha=0.3)
    assert found.threshold == expected.threshold
    if found.promise == found.bound:
        assert "not measured" in found.warnings[-1]
    else:
        in_parts.assert_same(found, expected)


def test_betting_is_refused_with_the_reason():
    claims = in_parts.scanned(
        in_parts.split(in_parts.columns_of(np.random.default_rng(0)), np.random.default_rng(1))
    )
    with pytest.raises(ValueError, match="reads every item at every candidate"):
        tether.ltt(claims, alpha=0.2, pvalue="betting")


def test_weights_and_groups_must_be_columns():
    claims = in_parts.scanned([in_parts.columns_of(np.random.default_rng(0), 5)])
    with pytest.raises(TypeError, match="groups of claims in parts must be a column"):
        tether.gcrc(claims, alpha=0.2, groups={0: 1})
    with pytest.raises(TypeError, match="weights of claims in parts must be a column"):
        tether.gcrc(claims, alpha=0.2, weights=np.ones(5))
    plain = in_parts.scanned([], in_parts.ClaimColumns("score", "label", "item"))
    with pytest.raises(ValueError, match="have no weights: pass a column to Claims"):
        plain.weights  # noqa: B018
