"""Claims in parts for tests: a source of arrays, random worlds, and the comparison with memory."""

import numpy as np
import pytest

import tether
from tether._core.kernels import merge_all
from tether.risk.claim_parts import ClaimColumns
from tether.risk.scanned_claims import ScannedClaims

COLUMNS = ClaimColumns("score", "label", "item", "group", "weight")
EXACT = ("threshold", "exists", "monotone", "n_nonmonotone", "n_items", "kept", "loss", "method")
CLOSE = ("risk", "alpha", "promise", "stability_term", "existence_term", "effective_sample_size")


class ArrayParts:
    """Parts that are dictionaries of arrays; `passes` counts how often they were read."""

    def __init__(self, parts):
        self.parts, self.passes = parts, 0

    def reduce(self, kernel):
        self.passes += 1
        return merge_all(
            kernel.partial({name: part[name] for name in kernel.columns})
            for part in self.parts
            if len(part["score"])
        )


def scanned(parts, columns=COLUMNS):
    return ScannedClaims(ArrayParts(parts), columns)


def columns_of(rng, n_items=None):
    """Claims with ties, huge or few different scores, and names of two kinds."""
    n_items = int(rng.integers(1, 300)) if n_items is None else n_items
    sizes = rng.integers(1, 8, n_items)
    item = np.repeat(np.arange(n_items), sizes)
    score = rng.normal(size=len(item))
    kind = rng.integers(4)
    if kind == 1:
        score = np.round(score, 1)
    elif kind == 2:
        score = np.exp(20 * score)
    elif kind == 3:
        score = np.round(rng.random(len(item)), 2)
    quality = rng.choice([0.5, 0.9, 0.99])
    label = rng.random(len(item)) < np.clip(quality + (1 - quality) * np.tanh(score), 0, 1)
    group = rng.integers(0, 3, n_items)[item]
    weight = np.exp(rng.normal(size=n_items))[item]
    if rng.random() < 0.3:
        item = np.array([f"item {number}" for number in item])
    return {"score": score, "label": label, "item": item, "group": group, "weight": weight}


def split(columns, rng, n_parts=5):
    """The items in parts at random, some perhaps without rows; the rows of each in any order."""
    names, place = np.unique(columns["item"], return_inverse=True)
    part_of_row = rng.integers(0, rng.integers(1, n_parts + 1), len(names))[place]
    parts = []
    for number in range(n_parts):
        rows = rng.permutation(np.flatnonzero(part_of_row == number))
        parts.append({name: values[rows] for name, values in columns.items()})
    return parts


def in_memory(columns, *, grouped=False):
    group = columns["group"] if grouped else None
    return tether.Claims.from_table(columns["score"], columns["label"], columns["item"], group)


def weight_of_items(columns):
    return dict(zip(columns["item"].tolist(), columns["weight"].tolist(), strict=True))


def assert_same(found, expected):
    """The same threshold, to the bit, and the same figures up to rounding."""
    for name in EXACT:
        assert getattr(found, name) == getattr(expected, name), name
    for name in CLOSE:
        close = pytest.approx(getattr(expected, name), rel=1e-10, abs=1e-12, nan_ok=True)
        assert getattr(found, name) == close, name
    detail = expected.stability_detail
    assert (found.stability_detail is None) == (detail is None)
    if detail is not None:
        for name in ("epsilon", "largest", "gap"):
            close = pytest.approx(getattr(detail, name), rel=1e-9, abs=1e-11, nan_ok=True)
            assert getattr(found.stability_detail, name) == close, name
    for name, part in expected.groups.items():
        assert_same(found.groups[name], part)
    for one, other in zip(found.by_loss, expected.by_loss, strict=True):
        assert_same(one, other)
