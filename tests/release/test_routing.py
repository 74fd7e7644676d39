from fractions import Fraction
from hashlib import blake2b

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.release import is_routed

SALT = b"a salt of a release"


def coin(key: str) -> int:
    """The oracle of a key's coin, from 0 to 2⁶⁴ − 1."""
    digest = blake2b(key.encode(), digest_size=8, key=SALT, person=b"router").digest()
    return int.from_bytes(digest, "big")


@given(st.lists(st.tuples(st.text(), st.floats(0, 1)), max_size=20))
def test_a_key_is_routed_if_its_coin_is_below_its_probability(pairs):
    keys, chances = [key for key, _ in pairs], [chance for _, chance in pairs]
    expected = [coin(key) < int(Fraction(chance) * 2**64) for key, chance in pairs]
    assert is_routed(keys, chances, SALT).tolist() == expected


def test_a_larger_probability_only_adds_keys():
    keys, before = range(20_000), np.zeros(20_000, bool)
    for chance in np.linspace(0, 1, 30):
        now = is_routed(keys, chance, SALT)
        assert not (before & ~now).any()
        before = now


def test_a_router_is_calibrated_as_a_policy_with_two_actions():
    """The rows of a step at a known share are a safe log of the router."""
    rng, share = np.random.default_rng(0), 0.2
    safe = tether.Categorical.from_probabilities([[1 - share, share]] * 2)
    router = tether.Categorical.from_probabilities([[0.02, 0.98], [0.98, 0.02]])
    everywhere = tether.Categorical.from_probabilities([[0.02, 0.98]] * 2)
    segment = (rng.random(3_000) < 0.1).astype(int)
    system = safe.sample(segment, rng)
    risk = np.where(system == 1, np.where(segment == 1, 0.5, 0.005), 0.01)
    losses = rng.random(len(risk)) < risk
    betas = {}
    for name, policy in {"router": router, "everywhere": everywhere}.items():
        log = tether.make_log(safe, policy, segment, system, losses)
        betas[name] = tether.calibrate(log, alpha=0.03).beta
    assert betas["router"] > 4 > 2 > betas["everywhere"]  # 0.98/0.2 lets everything through
