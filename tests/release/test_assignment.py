from hashlib import blake2b

import numpy as np
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


@given(st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_the_comparison_is_exact(share, position):
    found = is_new(np.array([position], dtype=np.uint64), share)[0]
    assert found == (position < int(share * 2**64))
    assert position_limit(share) <= 2**64


def test_a_growing_share_only_adds_keys_over_fifty_steps():
    place, before = positions(range(100_000), SALT), np.zeros(100_000, bool)
    for share in np.sort(np.random.default_rng(0).random(50)):
        now = is_new(positions(range(1000), SALT), float(share))
        assert (now == is_new(place, float(share))[:1000]).all()
        assert not (before & ~is_new(place, float(share))).any()
        before = is_new(place, float(share))
