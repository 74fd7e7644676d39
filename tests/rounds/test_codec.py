"""Contexts and actions come back as they were given."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tether.rounds.fingerprint import fingerprint
from tether.rounds.store.codec import Codec

numbers = hnp.arrays(
    st.sampled_from(["float64", "float32", "int64", "int8", "uint16", "bool", ">f8", ">i4"]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
)


def there_and_back(rows):
    codec = Codec.of("contexts", rows)
    assert Codec.from_dict(codec.to_dict()) == codec
    encoded = codec.encode("contexts", rows)
    assert len(encoded) == len(rows)
    return codec.decode(encoded)


@given(numbers)
def test_numbers(rows):
    back = there_and_back(rows)
    np.testing.assert_array_equal(back, rows)
    assert back.dtype == rows.dtype.newbyteorder("=")


@given(st.lists(st.text(), min_size=1))
def test_text(rows):
    rows = [row.replace("\x00", "") for row in rows]  # numpy drops it at the end
    assert there_and_back(np.array(rows)).tolist() == rows
    assert there_and_back(np.array(rows, dtype=object)).tolist() == rows
    grid = np.array([rows, rows])
    np.testing.assert_array_equal(there_and_back(grid), grid)


def test_lists():
    rows = np.empty(2, dtype=object)
    rows[:] = [[1, 2, 3], [4]]
    assert there_and_back(rows).tolist() == [[1, 2, 3], [4]]


def test_frames():
    rows = pd.DataFrame(
        {"age": [40, 50], "name": ["a", "β"], "dose": [0.5, np.nan], "ok": [True, False]}
    )
    back = there_and_back(rows)
    pd.testing.assert_frame_equal(back, rows, check_dtype=False)
    assert back["age"].dtype == np.int64
    assert back["ok"].dtype == bool
    with pytest.raises(TypeError, match=r"contexts\['when'\] must hold numbers or text"):
        Codec.of("contexts", pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}))


def test_nothing():
    codec = Codec.of("contexts", 5)
    assert codec.encode("contexts", 3) == [None] * 3
    assert codec.decode([None] * 3) == 3


def test_later_rows_are_like_the_first():
    codec = Codec.of("contexts", np.zeros((2, 3)))
    assert codec.decode(codec.encode("contexts", np.ones((2, 3), int))).tolist() == [[1.0] * 3] * 2
    for rows, words in [
        (
            np.zeros((2, 4)),
            r"shape \(4,\) a row but the run's first was numbers .* of shape \(3,\)",
        ),
        (np.zeros((2, 3), complex), "must be numbers, text, lists or a pandas frame"),
        (np.array(["a"]), "contexts is text"),
        (2, "contexts is a number, for actions without contexts but"),
        (pd.DataFrame({"a": [1.0]}), "contexts is a frame with"),
    ]:
        with pytest.raises(TypeError, match=words):
            codec.encode("contexts", rows)
    narrow = Codec.of("actions", np.zeros(2, int))
    with pytest.raises(TypeError, match=r"actions has dtype float64 but .* int64, which cannot"):
        narrow.encode("actions", np.array([0.5]))
    nothing = Codec.of("contexts", 5)
    with pytest.raises(TypeError, match="but the run's first was a number"):
        nothing.encode("contexts", np.zeros(2))


def test_fingerprints():
    import tether

    assert fingerprint(tether.Gaussian(0.0)) == fingerprint(tether.Gaussian(0.0))
    assert fingerprint(tether.Gaussian(0.0)) != fingerprint(tether.Gaussian(1e-9))
    assert fingerprint(tether.Gaussian(lambda x: x)) is None  # only its scores tell
    used = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5)
    before = fingerprint(used)
    used.log_prob(2, np.zeros(2))
    used.sample(3, np.random.default_rng(0))
    assert fingerprint(used) == before
    pool = tether.Pool(np.arange(5.0))
    assert fingerprint(pool) not in (None, fingerprint(tether.Pool(np.arange(6.0))))

    class Named(tether.Gaussian):
        fingerprint = "v3"

    class Asked(tether.Gaussian):
        def fingerprint(self):
            return "v4"

    assert fingerprint(Named(0.0)) == "v3"
    assert fingerprint(Asked(0.0)) == "v4"
