"""What a preflight says of two policies together, from their scores, and what a tether costs."""

import numpy as np
import pytest

from tether.llm.preflight_checks.pair_checks import (
    check_different,
    check_divergence,
    check_mean_ratio,
    check_shared_support,
    estimate_costs,
)


def test_a_mean_ratio_above_one_is_impossible():
    rng = np.random.default_rng(0)
    shift = rng.normal(size=4000)
    assert check_mean_ratio("safe", shift - 0.5).status == "pass"
    assert check_mean_ratio("safe", shift).status == "fail"
    assert check_mean_ratio("safe", 5 * rng.normal(size=4000) - 12.5).status == "warn"
    assert check_mean_ratio("safe", np.array([0.0, np.inf, 0.0])).status == "fail"
    assert check_mean_ratio("safe", np.array([0.0, np.nan, 0.0])).status == "fail"


def test_a_divergence_is_not_negative():
    noise = 0.1 * np.random.default_rng(0).normal(size=200)
    assert check_divergence("KL", noise + 0.005).status == "pass"
    assert check_divergence("KL", noise - 0.3).status == "fail"
    assert check_divergence("KL", noise + 20).status == "warn"
    assert check_divergence("KL", np.array([0.0, 0.1, np.inf])).status == "warn"


def test_few_draws_of_similar_policies_never_fail():
    """Also where all draws agree, because what makes up for it is rare."""
    rng = np.random.default_rng(1)
    for count in (3, 8, 48):
        for _ in range(300):
            assert check_divergence("KL", 0.1 * rng.normal(size=count) + 0.005).status == "pass"
    assert check_divergence("KL", np.full(48, np.log(0.99))).status == "pass"


def test_policies_that_cannot_do_what_the_other_does():
    some, all_of_them = np.array([-1.0, -np.inf]), np.array([-1.0, -2.0])
    assert check_shared_support(all_of_them, all_of_them).status == "pass"
    assert check_shared_support(all_of_them, some).status == "warn"
    assert check_shared_support(some, all_of_them).status == "fail"


def test_policies_with_the_same_scores_are_a_warning():
    zero, one = np.zeros(6), 0.02 * np.eye(6)[3]
    assert check_different(zero, 0.0).status == "warn"
    assert "one model object in both" in check_different(zero, 0.0).advice
    assert check_different(zero + 1e-5, 0.0).status == "warn"
    assert check_different(one, 0.0).status == "pass"
    assert check_different(one, 0.03).status == "warn"
    assert check_different(zero + 1, np.inf).status == "pass"


def test_a_prompt_without_common_draws_is_never_answered():
    safe, optimized = np.full((2, 6), -1.0), np.full((2, 6), -1.0)
    safe[0, 3:] = optimized[0, :3] = -np.inf
    found = estimate_costs(safe, optimized, (0.0, 1.0, np.inf))
    clip = [each for each in found if each.family == "clip"]
    assert [each.acceptance for each in clip] == [1.0, pytest.approx(0.5), 1.0]
    assert [each.draws for each in clip] == [1.0, np.inf, 1.0]
