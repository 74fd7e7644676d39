"""Served as calibrated: other policies than those of the log are errors, in memory and loaded."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import tether
from tether._core.records import encode
from tether.policies.kept_contexts import format_of, keep, kept

ACTIONS = np.array(["call", "visit", "wait"])


def classifier(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(300, 3))
    labels = ACTIONS[np.clip((features[:, 0] + rng.normal(size=300) + 1).astype(int), 0, 2)]
    return tether.Categorical.from_classifier(LogisticRegression().fit(features, labels))


def contexts_of(kind, n=400):
    rng = np.random.default_rng(5)
    table = rng.normal(size=(n, 3))
    return pd.DataFrame(table, columns=list("xyz")) if kind == "frame" else table


def gaussian(shift, scale=1.0):
    return tether.Gaussian(lambda x: np.asarray(x)[:, 0] + shift, scale)


def again(found, tmp_path, loaded):
    if not loaded:
        return found
    found.save(tmp_path / "found.json")
    return tether.Calibration.load(tmp_path / "found.json")


def calibrated(safe, optimized, contexts, tmp_path, loaded):
    """A calibration of two policies, as it was made or as it was saved and loaded."""
    rng = np.random.default_rng(0)
    n = contexts if isinstance(contexts, int) else len(contexts)
    actions = safe.sample(contexts, rng)
    losses = (rng.random(n) < 0.1).astype(float)
    log = tether.make_log(safe, optimized, contexts, actions, losses)
    assert log.probes is not None
    proposals = tether.make_proposals(safe, optimized, contexts, 8, rng)
    return again(tether.calibrate(log, proposals, alpha=0.2), tmp_path, loaded)


def logits(seed, temperature=1.0, actions=ACTIONS):
    matrix = np.random.default_rng(seed).normal(size=(3, 3))
    score = lambda contexts: np.asarray(contexts) @ matrix  # noqa: E731
    return tether.Categorical.from_logits(score, actions, temperature=temperature)


def table(seed, size=6):
    rng = np.random.default_rng(seed)
    return tether.Categorical.from_logits(rng.normal(size=size))


def hidden(policy):
    return tether.FunctionPolicy(policy.sample, policy.log_prob)


MISTAKES = {
    # right safe and optimized policy, contexts, and what is served instead
    "swapped": (logits(1), logits(2), "array", (logits(2), logits(1)), "exchanged"),
    "swapped, no contexts": (table(1), table(2), 400, (table(2), table(1)), "exchanged"),
    "other weights": (logits(1), logits(2), "array", (logits(1), logits(3)), "optimized"),
    "other safe": (logits(1), logits(2), "array", (logits(4), logits(2)), "safe"),
    "temperature": (logits(1), logits(2), "array", (logits(1), logits(2, 0.8)), "optimized"),
    "lists now, and others": (
        hidden(logits(1)), hidden(logits(2)), "array",
        (logits(1, actions=["a", "b", "c"]), logits(2, actions=["a", "b", "c"])), "cannot score",
    ),
    "other order": (
        logits(1), logits(2), "array",
        (logits(1, actions=ACTIONS[::-1]), logits(2, actions=ACTIONS[::-1])), "action",
    ),
    "other names": (
        logits(1), logits(2), "array",
        (logits(1, actions=[0, 1, 2]), logits(2, actions=[0, 1, 2])), "action",
    ),
    "behind a function": (
        hidden(logits(1)), hidden(logits(2)), "array", (hidden(logits(1)), hidden(logits(3))), "op",
    ),
    "shift": (gaussian(0), gaussian(1), "array", (gaussian(0), gaussian(1.2)), "optimized"),
    "scale": (gaussian(0), gaussian(1), "frame", (gaussian(0, 1.1), gaussian(1)), "safe"),
    "retrained": (classifier(1), classifier(2), "array", (classifier(1), classifier(3)), "opt"),
    "other features": (classifier(1), classifier(2), "array",
                       (classifier(1), tether.Categorical.from_logits(lambda x: x["a"], ACTIONS)),
                       "optimized"),
}  # fmt: skip


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_policies_that_were_not_calibrated_are_refused(mistake, loaded, tmp_path):
    safe, optimized, contexts, served, named = MISTAKES[mistake]
    contexts = contexts if isinstance(contexts, int) else contexts_of(contexts)
    found = calibrated(safe, optimized, contexts, tmp_path, loaded)
    assert len(found.probes) >= 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tether.PromiseWarning)
        tether.Tethered(safe, optimized, found)  # the right ones
        with pytest.raises(ValueError, match=named):
            tether.Tethered(*served, found)


@pytest.mark.parametrize("loaded", [False, True])
def test_no_false_alarm_from_rounding_batches_and_other_clothes(loaded, tmp_path):
    safe, optimized = logits(1), logits(2)

    def rounded(policy):
        def log_probabilities(contexts):
            noise = 1 + 1e-3 * np.random.default_rng(len(contexts)).normal(size=(len(contexts), 3))
            rough = policy.log_prob_all(contexts).astype(np.float32) * noise
            return rough - np.log(np.exp(rough).sum(axis=1, keepdims=True))

        return tether.Categorical(log_probabilities, ACTIONS)

    found = calibrated(rounded(safe), rounded(optimized), contexts_of("array"), tmp_path, loaded)
    tether.Tethered(rounded(safe), rounded(optimized), found)
    tether.Tethered(hidden(safe), hidden(optimized), found)
    same = tether.Mixture([optimized, optimized], [1, 2])
    tether.Tethered(safe, same, found)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, None),
        ({"temperature": 0.7}, "optimized"),
        ({"score": lambda contexts, candidates: 3 * candidates}, "optimized"),
        ({"size": 5}, "size"),
        ({"safe": tether.Gaussian(0.3)}, "candidates"),
    ],
)
def test_shortlists(change, named, loaded, tmp_path):
    def shortlist(safe=None, score=None, **options):
        safe = tether.Gaussian(0.0) if safe is None else safe
        score = (lambda contexts, candidates: candidates) if score is None else score
        return tether.Shortlist(safe, score, **{"size": 4, **options})

    rng = np.random.default_rng(0)
    contexts = rng.normal(size=300)
    actions = tether.Gaussian(0.0).sample(contexts, rng)
    log = shortlist().make_log(contexts, actions, actions > 1.5, rng)
    found = again(tether.calibrate(log, alpha=0.15), tmp_path, loaded)
    if named is None:
        assert shortlist(**change).tethered(found).sample(contexts, rng).shape == (300,)
        return
    with pytest.raises(ValueError, match=named):
        shortlist(**change).tethered(found)


def test_contexts_that_cannot_be_kept_leave_fingerprints(tmp_path):
    """Complex numbers, and pictures of a million pixels, are not kept: digests decide."""
    pictures = np.zeros((400, 20, 1000))
    pictures[:, 0, 0] = np.arange(400)
    for contexts in (np.arange(400) + 1j, pictures):
        safe, optimized = table(1), table(2)
        found = calibrated(safe, optimized, contexts, tmp_path, loaded=False)
        assert found.probes.missing is not None
        tether.Tethered(safe, table(2), found)
        with pytest.raises(ValueError, match="fingerprint"):
            tether.Tethered(safe, table(3), found)
        with pytest.warns(tether.AssumptionWarning, match="cannot be checked"):
            tether.Tethered(safe, hidden(optimized), found)


def test_an_unavailable_policy_is_recognized_by_its_fingerprint_or_told(tmp_path):
    class Served:
        actions = np.arange(6)

        def __init__(self, name):
            self.fingerprint, self.down = name, False

        def log_prob_all(self, contexts):
            if self.down:
                raise ConnectionError("no route")
            return table(2).log_prob_all(contexts)

        def sample(self, contexts, rng):
            return table(2).sample(contexts, rng)

        def log_prob(self, contexts, actions):
            return table(2).log_prob(contexts, actions)

    right, other = Served("v1"), Served("v2")
    found = calibrated(table(1), right, 400, tmp_path, loaded=False)
    tether.Tethered(table(1), other, found)  # another name, the same scores
    right.down = other.down = True
    tether.Tethered(table(1), right, found)
    with pytest.raises(ValueError, match="fingerprint was v1, and is v2"):
        tether.Tethered(table(1), other, found)
    other.fingerprint = None
    with pytest.warns(tether.AssumptionWarning, match="no route"):
        tether.Tethered(table(1), other, found)


def test_long_densities_may_round_more(tmp_path):
    """The log-density of 300 coordinates, each rounded in its fourth digit as half floats are."""
    shifts = np.full(300, 0.05)

    def text(shift, seed=None, scale=1.0):
        inner = tether.Gaussian(shift * shifts, scale)
        noise = np.random.default_rng(seed).normal(scale=0.5)
        return tether.FunctionPolicy(
            inner.sample, lambda n, a: inner.log_prob(n, a) + (noise if seed is not None else 0.0)
        )

    found = calibrated(text(0), text(1), 400, tmp_path, loaded=True)
    for seed in range(5):
        tether.Tethered(text(0, seed), text(1, seed + 9), found)
    with pytest.raises(ValueError, match="optimized"):
        tether.Tethered(text(0), text(4), found)
    with pytest.raises(ValueError, match="safe"):
        tether.Tethered(text(0, scale=0.9), text(1), found)


values = st.one_of(
    st.floats(), st.integers(-(2**40), 2**40), st.text(max_size=5), st.booleans(), st.none()
)
nested = st.lists(st.dictionaries(st.text(max_size=3), values, max_size=2), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.lists(values, min_size=1), nested))
def test_contexts_of_plain_values_are_kept_exactly(listed):
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    found = kept(json.loads(json.dumps(encode(keep(array)))))
    assert repr(found.tolist()) == repr(array.tolist())


@pytest.mark.parametrize(
    "contexts",
    [
        np.array([[0.1, np.nan], [np.inf, -0.0]], dtype=np.float32),
        np.array(["a", "bcd"]),
        np.array(["2024-01-01", "NaT"], dtype="datetime64[s]"),
        pd.Series([1.5, np.nan], name="dose"),
        pd.DataFrame({
            "n": [1, 2], "x": [0.5, np.nan], "t": pd.to_datetime(["2024-01-01", "2025-02-02"]),
            "c": pd.Categorical(["u", "v"], categories=["v", "w", "u"], ordered=True),
            "s": ["one", None], "i": pd.array([1, 2], dtype="Int64"), "b": [True, False],
            "j": pd.array([2**60 + 1, None], dtype="Int64"),
        }),
        sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]),
    ],
)  # fmt: skip
def test_contexts_of_every_kind_are_kept_exactly(contexts):
    found = kept(json.loads(json.dumps(encode(keep(contexts)))))
    if isinstance(contexts, pd.DataFrame):
        pd.testing.assert_frame_equal(found, contexts)
    elif isinstance(contexts, pd.Series):
        pd.testing.assert_series_equal(found, contexts)
    elif sparse.issparse(contexts):
        assert type(found) is type(contexts)
        assert (found != contexts).nnz == 0
    else:
        assert found.dtype == contexts.dtype
        np.testing.assert_array_equal(found, contexts)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "object", None])
def test_columns_that_may_have_gaps_have_one_format_with_and_without_them(dtype):
    value = {"Int64": 1, "boolean": True}.get(dtype, "a")
    both = [pd.DataFrame({"x": pd.array([value, x], dtype=dtype)}) for x in (value, None)]
    for full, gap in (both, (["a", "b"], ["a", None])):
        assert format_of("contexts", full) == format_of("contexts", gap)


def test_every_context_is_probed_where_they_are_few():
    """A model that differs in one context in five is another model."""
    rng, table = np.random.default_rng(0), np.full((5, 3), 1 / 3)
    other = table.copy()
    other[3] = [0.8, 0.1, 0.1]
    policies = [
        tether.Categorical.from_probabilities(lambda c, t=t: t[c], range(3))
        for t in (table, table[:, ::-1] * [1.5, 1.0, 0.5], other)
    ]
    contexts = np.repeat(np.arange(5), [400, 2, 400, 2, 196])
    safe, optimized, retrained = policies
    log = tether.make_log(
        safe, optimized, contexts, safe.sample(contexts, rng), rng.random(1000) < 0.05
    )
    found = tether.calibrate(log, promise=0.2)
    tether.Tethered(safe, optimized, found)
    with pytest.raises(ValueError, match="safe"):
        tether.Tethered(retrained, optimized, found)
