"""The promise as a target: never above what was asked for, and close to it."""

import dataclasses

import numpy as np
import pytest

import tether
from tests.control.example_logs import (
    drawn_world,
    finite_world,
    gaussian_columns,
    log_and_proposals,
)
from tether.control.promise import PromiseTerms
from tether.control.promise_target import MAX_STEPS, TARGET_TOLERANCE, reach_promise


def assert_largest(found, solve, asked):
    """The promises fit, and at slightly larger alphas one of them does not."""
    assert found.exists
    assert found.asked_promise == asked
    for each in found.constraints:
        assert found.promises[each.name] <= asked[each.name]
        assert each.alpha <= asked[each.name]
    step = {each.name: 1.001 * TARGET_TOLERANCE * asked[each.name] for each in found.constraints}
    larger = {each.name: each.alpha + step[each.name] for each in found.constraints}
    beyond = solve(larger)
    assert any(promise > asked[name] for name, promise in beyond.promises.items())


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_the_largest_alpha_whose_promise_fits(family):
    rng = np.random.default_rng(80)
    for rows in (300, 1000, 4000):
        columns = log_and_proposals(gaussian_columns(rng, rows, 100), False)

        def solve(alphas, columns=columns):
            return tether.calibrate(*columns, alpha=alphas["loss"], family=family)

        found = tether.calibrate(*columns, promise=0.15, family=family)
        assert_largest(found, solve, {"loss": 0.15})
        assert found.alpha < 0.15
        again = solve({"loss": found.alpha})
        assert again.log_beta == found.log_beta
        assert again.promise == found.promise


def test_several_losses():
    rng = np.random.default_rng(81)
    for _ in range(4):
        action, drawn = rng.normal(size=1500), 1 + 0.8 * rng.normal(size=200)
        scores = lambda a: (-(a**2) / 2, -(((a - 1) / 0.8) ** 2) / 2 - np.log(0.8))  # noqa: E731
        log = tether.Log({"harm": action > 1.5, "delay": 2.0 * (action > 1)}, *scores(action))
        proposals, bound = tether.Proposals(*scores(drawn)), {"harm": 1.0, "delay": 2.0}
        asked = {"harm": 0.16, "delay": 0.6}
        found = tether.calibrate(log, proposals, promise=asked, bound=bound)

        def solve(alphas, log=log, proposals=proposals, bound=bound):
            return tether.calibrate(log, proposals, alpha=alphas, bound=bound)

        assert_largest(found, solve, asked)
        one = tether.calibrate(log, proposals, promise=0.6, bound=bound)
        assert one.asked_promise == {"harm": 0.6, "delay": 0.6}
        assert max(one.promises.values()) <= 0.6


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
@pytest.mark.parametrize("drawn", [False, True])
def test_contexts_with_tables_and_with_draws(family, drawn):
    rng = np.random.default_rng(82)
    reached = 0
    for _ in range(3):
        made = drawn_world(rng, rows=150)[:2] if drawn else finite_world(rng, rows=150)[:1]
        found = tether.calibrate(*made, promise=0.35, family=family)
        assert found.asked_promise == {"loss": 0.35}
        if found.exists:
            assert found.promise <= 0.35
            at_alpha = tether.calibrate(*made, alpha=found.alpha, family=family)
            assert at_alpha.log_beta == found.log_beta
            reached += 1
    assert reached


def test_a_promise_that_cannot_be_made():
    """No alpha is small enough: the safe policy is served, and the warning names the promise."""
    rng = np.random.default_rng(83)
    log, proposals = log_and_proposals(gaussian_columns(rng, 300, 100), False)
    words = {  # below the safe policy's own loss, and just above it
        0.01: "the safe policy's own mean loss is 0.05667 ± 0.014, above 0.01: more rows will not",
        0.068: "no beta has a promise of at most 0.068: serve the safe policy only",
    }
    for promise, text in words.items():
        found = tether.calibrate(log, proposals, promise=promise)
        assert not found.exists
        assert not found.useful
        assert found.asked_promise == {"loss": promise}
        assert found.promise == found.bound == 1.0
        assert set(found.log_beta_by_constraint.values()) == {-np.inf}
        assert any(text in warning for warning in found.warnings)
        assert str(found)
    assert tether.calibrate(log, proposals, alpha=0.09).asked_promise is None


def test_a_promise_that_fits_at_once():
    """Nothing to pay beyond alpha: no row moves an infinite beta."""
    rows = np.zeros(400)
    found = tether.calibrate(tether.Log(rows, rows, rows), tether.Proposals(rows, rows),
                             promise=0.5)  # fmt: skip
    assert found.beta == np.inf
    assert found.alpha == pytest.approx(0.5, rel=0.01)
    assert found.promise <= 0.5


def test_exactly_one_of_alpha_and_promise():
    log = tether.Log([0.0] * 9, [0.0] * 9, [0.0] * 9)
    with pytest.raises(TypeError, match=r"exactly one of alpha .* and promise .*got neither"):
        tether.calibrate(log)
    with pytest.raises(TypeError, match=r"exactly one of alpha .* and promise .*got both"):
        tether.calibrate(log, alpha=0.1, promise=0.2)
    with pytest.raises(ValueError, match="promise must be above 0 and below 1, got 0"):
        tether.calibrate(log, promise=0)
    with pytest.raises(ValueError, match=r"promise has the losses \['harm'\] but the log has"):
        tether.calibrate(log, promise={"harm": 0.1})


def test_a_promise_with_a_confidence_is_alpha():
    """What is promised with a confidence has no other terms."""
    rng = np.random.default_rng(84)
    log, proposals = log_and_proposals(gaussian_columns(rng, 2000, 100), False)
    found = tether.calibrate(log, proposals, promise=0.12, confidence=0.9)
    same = tether.calibrate(log, proposals, alpha=0.12, confidence=0.9)
    assert found.log_beta == same.log_beta > -np.inf
    assert (found.asked_promise, same.asked_promise) == ({"loss": 0.12}, None)
    assert found.promise == 0.12


def scripted(terms, exists=lambda alpha: True):
    """A solver whose promise is alpha plus given terms, and the alphas that it was asked for."""
    base = tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)
    asked = []

    def solve(alphas):
        alpha = alphas["loss"]
        asked.append(alpha)
        log_beta = np.log(alpha) if exists(alpha) else -np.inf
        constraint = dataclasses.replace(base.constraints[0], alpha=alpha)
        found = dataclasses.replace(
            base, log_beta=log_beta, constraints=(constraint,),
            log_beta_by_constraint={"loss": log_beta},
        )  # fmt: skip
        found.__dict__["promise_terms"] = {"loss": PromiseTerms(alpha, *terms(alpha), 1.0)}
        return found

    return solve, asked


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 3.0])
def test_terms_that_grow_with_alpha(share):
    """With a promise of (1 + share)·alpha the largest alpha is 0.4/(1 + share)."""
    solve, asked = scripted(lambda alpha: (share * alpha, 0.0))
    found = reach_promise(solve, {"loss": 0.4})
    assert found.constraints[0].alpha <= 0.4 / (1 + share)
    assert found.constraints[0].alpha >= 0.4 / (1 + share) - 0.4 * TARGET_TOLERANCE
    assert len(asked) < MAX_STEPS


def test_terms_that_shrink_with_alpha():
    """The smaller alpha, the closer the safe policy is to it: the steps never end."""
    solve, asked = scripted(lambda alpha: (0.0, 0.001 / alpha))
    found = reach_promise(solve, {"loss": 0.05})
    assert not found.exists
    assert found.asked_promise == {"loss": 0.05}
    assert len(asked) <= MAX_STEPS + 2
    found = reach_promise(scripted(lambda alpha: (0.0, 0.0003 / alpha))[0], {"loss": 0.05})
    assert found.exists
    largest = (0.05 + np.sqrt(0.05**2 - 4 * 0.0003)) / 2  # a + 0.0003/a = 0.05
    assert largest - 0.05 * TARGET_TOLERANCE <= found.constraints[0].alpha <= largest


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.99])
def test_terms_that_grow_as_alpha_falls(rate):
    """Lowering alpha by what is too much approaches the largest alpha, 0.2, and never passes it."""
    solve, _ = scripted(lambda alpha: (0.1 + rate * (0.2 - alpha), 0.0))
    found = reach_promise(solve, {"loss": 0.3})
    assert found.exists
    assert 0.2 - 0.3 * TARGET_TOLERANCE <= found.constraints[0].alpha <= 0.2 + 1e-12


def test_where_no_beta_exists_lower_alphas_are_not_tried():
    solve, asked = scripted(lambda alpha: (0.1, 0.0), exists=lambda alpha: alpha > 0.35)
    assert not reach_promise(solve, {"loss": 0.4}).exists
    assert len(asked) <= 12
    assert min(asked) > 0.29
    solve, asked = scripted(lambda alpha: (0.1, 0.0), exists=lambda alpha: False)
    assert not reach_promise(solve, {"loss": 0.4}).exists
    assert len(asked) == 1


def test_an_alpha_between_one_that_is_too_large_and_one_without_a_beta():
    """From 0.4 the first step goes to 0.3, where there is none; up to 0.36 the promise fits."""
    extra = lambda alpha: (0.1 if alpha > 0.36 else 0.01, 0.0)  # noqa: E731
    solve, _ = scripted(extra, exists=lambda alpha: alpha > 0.33)
    found = reach_promise(solve, {"loss": 0.4})
    assert found.exists
    assert 0.359 < found.constraints[0].alpha <= 0.36


def test_where_none_is_small_enough_the_nearest_says_which_terms_forbid_it():
    rng = np.random.default_rng(5)
    columns = log_and_proposals(gaussian_columns(rng, 300, 100), False)
    safe = tether.calibrate(*columns, alpha=0.2, family="mix").safe_losses["loss"]
    asked = 1.05 * safe
    found = tether.calibrate(*columns, promise=asked, family="mix")
    assert not found.exists
    assert found.nearest is not None
    terms = found.nearest.terms["loss"]
    assert asked < terms.total < found.bound
    again = tether.calibrate(*columns, alpha=terms.alpha, family="mix")
    assert (again.log_beta, again.promise) == (found.nearest.log_beta, terms.total)
    text = " ".join(str(found).split())
    assert f"= {terms.total:.4g}, which does not pass" in text
    loaded = tether.Calibration.from_dict(found.to_dict())
    assert loaded == found
    assert str(loaded) == str(found)
    assert tether.calibrate(*columns, promise=0.3, family="mix").nearest is None
