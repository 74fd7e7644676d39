"""Digests depend on values, and on nothing else."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._core.digests import array_digest, bytes_digest, canonical_json, content_digest

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def test_the_digest_is_sha_256():
    assert bytes_digest(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    expected = hashlib.sha256(b"f[2]" + np.array([1.0, 2.0], "<f8").tobytes()).hexdigest()
    assert array_digest(np.array([1.0, 2.0])) == f"sha256:{expected}"


@given(PLAIN)
def test_canonical_json_survives_being_written_and_read(value):
    again = json.loads(json.dumps(value, indent=2))
    assert canonical_json(again) == canonical_json(value)
    assert content_digest(again) == content_digest(value)


def test_the_order_of_names_does_not_matter_and_that_of_items_does():
    assert content_digest({"a": 1, "b": 2}) == content_digest({"b": 2, "a": 1})
    assert content_digest([1, 2]) != content_digest([2, 1])
    assert content_digest({"a": 1}) != content_digest({"a": 1.0})
    with pytest.raises(ValueError):
        canonical_json(float("nan"))


def test_arrays_are_digested_by_value():
    numbers = np.array([0.0, 1.5, -np.inf])
    same = [
        numbers.astype(np.float32),
        numbers.astype(">f8"),
        np.array([-0.0, 1.5, -np.inf]),
        np.array([[0.0, 9], [1.5, 9], [-np.inf, 9]])[:, 0],
    ]
    assert {array_digest(each) for each in same} == {array_digest(numbers)}
    whole = np.array([1, 2, 3])
    assert array_digest(whole.astype(np.uint8)) == array_digest(whole)
    assert array_digest(np.array([2**63], np.uint64)) != array_digest(np.array([-(2**63)]))
    words = np.array(["a", "bé"])
    assert array_digest(words.astype("U50")) == array_digest(words)
    assert array_digest(words.astype(">U2")) == array_digest(words)


def test_different_arrays_have_different_digests():
    arrays = [
        np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.array([[1.0, 2.0]]), np.array([1, 2]),
        np.array(["1", "2"]), np.array([b"1", b"2"]), np.array(["12", ""]), np.array(["", "12"]),
        np.array(["", ""]), np.array([], dtype="U1"), np.array([1.0]), np.array([True, False]),
        np.nextafter([1.0, 2.0], 3.0),
    ]  # fmt: skip
    assert len({array_digest(each) for each in arrays}) == len(arrays)
    with pytest.raises(TypeError, match="only numbers and strings"):
        array_digest(np.array([object()]))
