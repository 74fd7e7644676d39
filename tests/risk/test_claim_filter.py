import numpy as np
import pytest

import tether

RNG = np.random.default_rng(6)
SIZES = RNG.integers(0, 6, 400)
SCORES = RNG.random(SIZES.sum())
CLAIMS = tether.Claims(SCORES, RNG.random(len(SCORES)) < SCORES, np.append(0, np.cumsum(SIZES)))
GROUPS = np.array(["large", "middle", "small", "tiny"])[
    RNG.choice(4, 400, p=[0.7, 0.25, 0.03, 0.02])
]


def test_claims_are_filtered_by_the_threshold_of_their_group():
    found = tether.gcrc(CLAIMS, alpha=0.2, groups=GROUPS, minimum_group_size=20)
    per_claim = np.repeat(GROUPS, SIZES)
    kept = tether.filter_claims(found, SCORES, groups=per_claim)
    expected = [s >= found.for_group(g).threshold for s, g in zip(SCORES, per_claim, strict=True)]
    assert kept.tolist() == expected
    with pytest.raises(ValueError, match="'new' was not calibrated; known: 'large', 'middle'"):
        tether.filter_claims(found, [0.5], groups=["new"])
    with pytest.raises(ValueError, match="groups is required"):
        tether.filter_claims(found, [0.5])


def test_filtering_without_groups():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    assert (tether.filter_claims(found, SCORES) == (found.threshold <= SCORES)).all()
    assert tether.filter_claims(found, []).tolist() == []
    nothing = tether.gcrc(CLAIMS, alpha=0.001)
    assert not nothing.exists
    assert not tether.filter_claims(nothing, SCORES).any()
    with pytest.raises(ValueError, match="scores"):
        tether.filter_claims(found, [np.nan])
    with pytest.raises(ValueError, match="known: none"):
        tether.filter_claims(found, [0.5], groups=["a"])


def test_a_number_is_not_a_selection():
    with pytest.raises(TypeError, match=r"selection must be a Selection .* got 0.5"):
        tether.filter_claims(0.5, [0.1])
