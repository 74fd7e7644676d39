"""Records as plain values and JSON files, and back."""

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tether._core import records, signing


@dataclass(frozen=True)
class Part:
    name: str
    risk: float
    curve: NDArray[np.float64]


@dataclass(frozen=True)
class FoundResult(records.Saved):
    rows: int
    beta: float | None
    weight: str | float
    parts: dict[str, Part]
    by_rows: dict[int, float]
    means: dict[str, tuple[float, float]]
    table: NDArray[np.float64]
    counts: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    words: tuple[str, ...]
    contexts: list[Any]
    best: Part | None = None
    alive: bool = field(default=True)


floats = st.floats(allow_nan=True, allow_infinity=True)
words = st.text(max_size=8) | st.sampled_from(["inf", "-inf", "nan"])


def arrays(kind, elements=None):
    shapes = hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=4)
    return hnp.arrays(kind, shapes | st.just((0,)) | st.just((2, 0)), elements=elements)


parts = st.builds(Part, words, floats, arrays(np.float64))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
results = st.builds(
    FoundResult,
    rows=st.integers(),
    beta=st.none() | floats | st.integers(),
    weight=st.sampled_from(["empirical", "analytic"]) | floats,
    parts=st.dictionaries(words, parts, max_size=3),
    by_rows=st.dictionaries(st.integers(), floats, max_size=3),
    means=st.dictionaries(words, st.tuples(floats, floats), max_size=2),
    table=arrays(np.float64),
    counts=arrays(np.int64),
    chosen=arrays(np.bool_),
    words=st.lists(words, max_size=3).map(tuple),
    contexts=st.lists(json_values | words, max_size=3),
    best=st.none() | parts,
    alive=st.booleans(),
)


def same(one, other):
    """Equal in value and in type, NaN to NaN."""
    if isinstance(one, np.ndarray):
        kind = isinstance(other, np.ndarray) and one.dtype.kind == other.dtype.kind
        equal_nan = one.dtype.kind == "f"
        return kind and np.array_equal(one, other, equal_nan=equal_nan) and one.shape == other.shape
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (Part, FoundResult)):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


@given(results)
@settings(max_examples=300)
def test_a_record_survives_json(found):
    text = json.dumps(records.encode(found), allow_nan=False)
    again = records.decode(FoundResult, json.loads(text))
    assert same(found, again)
    assert not again.table.flags.writeable
    assert again.to_dict().keys() == {f.name for f in fields(found)}


def example(**changes):
    curve = np.array([0.5, np.inf, -0.0])
    values = {
        **{"rows": 3, "beta": np.inf, "weight": "empirical"},
        **{"parts": {"harm": Part("harm", 0.1, curve)}, "by_rows": {10: 0.5}, "means": {}},
        **{"table": np.eye(2), "counts": np.arange(2), "chosen": np.array([True])},
        **{"words": ("inf",), "contexts": [{"a": 1}]},
    }
    return FoundResult(**{**values, **changes})


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        *(("rows", 3.0), ("rows", True), ("beta", "infinite"), ("parts", [])),
        *(("parts", {"harm": {"name": "harm", "risk": 0.1}}), ("means", {"harm": [0.1]})),
        *(("table", [[1.0], [1.0, 2.0]]), ("table", ["a"]), ("counts", [0.5])),
        *(("words", "inf"), ("alive", None)),
    ],
)
def test_an_entry_of_another_type_is_named(entry, value):
    content = {**records.encode(example()), entry: value}
    with pytest.raises(ValueError, match=rf"record\.{entry}"):
        records.decode(FoundResult, content)


def test_a_signed_result_needs_the_right_key(tmp_path):
    path, key, other = (tmp_path / name for name in ("found.json", "ops", "other"))
    signing.generate_keys(key)
    signing.generate_keys(other)
    example().save(path, key=f"{key}.key")
    assert json.loads(path.read_text())["kind"] == "found result"
    assert same(FoundResult.load(path, key=f"{key}.pub"), example())
    with pytest.raises(ValueError, match="signature"):
        FoundResult.load(path, key=f"{other}.pub")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"rows": 3', '"rows": 4', "does not match its digest"),
        ('"rows": 3', '"rows": NaN', "does not match its digest"),
        ('"rows": 3', '"rows": 1e999', "does not match its digest"),
        ('"rows": 3', '"rows": ' + "[" * 100_000, "is not JSON"),
        ('"digest": "sha256', '"digest": "sha512', "does not match its digest"),
        ('"digest":', '"other":', "does not match its digest"),
    ],
)
def test_what_is_not_written_here_is_refused(tmp_path, old, new, message):
    path = tmp_path / "record.json"
    example().save(path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        FoundResult.load(path)
