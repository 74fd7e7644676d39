from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.release import is_new, position_limit, positions

SALT = b"a salt of a release"


@given(st.lists(st.text(), max_size=20), st.binary(min_size=1, max_size=64))
def test_a_position_is_the_keyed_hash_of_the_key(keys, salt):
    expected = [
        int.from_bytes(blake2b(key.encode(), digest_size=8, key=salt).digest(), "big")
        for key in keys
    ]
    assert positions(keys, salt).tolist() == expected


def test_an_integer_is_its_digits_and_order_does_not_matter():
    assert (positions([7, np.int64(12)], SALT) == positions(["7", b"12"], SALT)).all()
    assert positions(["a", "b"], SALT).tolist() == positions(["b", "a"], SALT).tolist()[::-1]
    assert (positions(["a"], b"x") != positions(["a"], b"y")).all()


@given(st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_the_comparison_is_exact(share, position):
    found = is_new(np.array([position], dtype=np.uint64), share)[0]
    assert found == (position < int(share * 2**64))
    assert position_limit(share) <= 2**64


def test_nobody_everybody_and_the_share_of_the_keys():
    place = positions(range(200_000), SALT)
    assert not is_new(place, 0.0).any()
    assert is_new(place, 1.0).all()
    for share in (0.01, 0.3, 0.97):
        error = np.sqrt(share * (1 - share) / len(place))
        assert abs(is_new(place, share).mean() - share) < 4 * error


def test_a_growing_share_only_adds_keys_over_fifty_steps():
    place, before = positions(range(100_000), SALT), np.zeros(100_000, bool)
    for share in np.sort(np.random.default_rng(0).random(50)):
        now = is_new(positions(range(1000), SALT), float(share))
        assert (now == is_new(place, float(share))[:1000]).all()
        assert not (before & ~is_new(place, float(share))).any()
        before = is_new(place, float(share))


def test_assignments_with_two_salts_are_independent():
    one, two = (is_new(positions(range(100_000), salt), 0.5) for salt in (b"1", b"2"))
    assert abs((one & two).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 100_000)


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(ValueError, match="share must be from 0 to 1"):
        position_limit(share)


def test_bad_keys_and_salts_are_refused():
    with pytest.raises(TypeError, match=r"a key must be a str, bytes or int, got 1\.5"):
        positions([1.5], SALT)
    with pytest.raises(TypeError, match="a key must be a str, bytes or int, got True"):
        positions([True], SALT)
    for key in ("ann", b"ann", np.str_("ann"), bytearray(b"ann")):
        with pytest.raises(TypeError, match="keys must be several keys, such as"):
            positions(key, SALT)
    with pytest.raises(TypeError, match="salt must be bytes, got 'salt'"):
        positions(["a"], "salt")
    for salt in (b"", bytes(65)):
        with pytest.raises(ValueError, match="salt must have 1 to 64 bytes"):
            positions(["a"], salt)


def test_subclasses_of_text_are_keys_too():
    assert positions([np.str_("ann")], SALT) == positions(["ann"], SALT)
