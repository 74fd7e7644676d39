"""A plan with a confidence: what logs of a given size certify."""

import warnings

import numpy as np
import pytest
from benchmarks.plan_worlds import gaussian, graded, never_takes, propensities
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import tether
from tests.planning.plan_truths import assert_logs_pass_as_planned
from tests.scale import scaled
from tether.control.constraint import Constraint
from tether.control.families import find_family
from tether.control.high_probability import certified_beta
from tether.control.problem import pose
from tether.planning.confidence_model import ConfidenceModel, RepresentativeLog
from tether.planning.population import Population

WORLDS = [
    lambda: gaussian("", 1.0, 1.5, alpha=0.2, confidence=0.95, family="clip"),
    lambda: graded("", 0.3, alpha=0.4, confidence=0.95, family="mix"),
    lambda: never_takes("", promise=0.12, confidence=0.8, family="clip"),
]


def certifies(rows, harmful, alpha, confidence):
    """Whether a beta exists on a log of so many rows, whatever the ratios."""
    loss = (np.arange(rows) < harmful).astype(float)
    log = tether.Log(loss, np.zeros(rows), np.linspace(-1.0, 1.0, rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tether.calibrate(log, alpha=alpha, confidence=confidence).exists


@pytest.mark.parametrize(
    ("alpha", "risk", "confidence", "probability"),
    [(0.3, 0.1, 0.9, 0.9), (0.3, 0.1, 0.9, 0.5), (0.4, 0.02, 0.95, 0.7), (0.25, 0.0, 0.99, 0.9)],
)
def test_rows_are_those_after_the_last_with_which_too_few_logs_pass(
    alpha, risk, confidence, probability
):
    """Against calibrations with every number of rows and of harmful rows."""
    made = tether.plan(
        alpha=alpha, safe_risk=risk, confidence=confidence, pass_probability=probability
    )
    passing, most = {}, -1  # the most harmful rows with which a log is certified
    for rows in range(1, 2 * int(made.rows_likely) + 20):
        while most + 1 <= rows and certifies(rows, most + 1, alpha, confidence):
            most += 1
        passing[rows] = binom.cdf(most, rows, risk) if most >= 0 else 0.0
    failing = [rows for rows, share in passing.items() if share < probability]
    assert made.rows_likely == failing[-1] + 1


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("probability", [0.5, 0.9])
def test_logs_of_the_planned_size_pass_as_often_as_planned(world, probability):
    assert_logs_pass_as_planned(world(), probability, scaled(30))


@pytest.mark.parametrize("world", WORLDS)
def test_beta_is_in_the_middle_of_those_of_logs_of_the_size(world):
    truth, rng, repeats, rows = world(), np.random.default_rng(1), scaled(15), 1500
    ((_, planned),) = truth.plan(rows=rows).betas
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted(truth.calibrate(rows, rng).beta for _ in range(repeats))
    assert found[repeats // 5] / 1.06 <= planned <= found[-1 - repeats // 5] * 1.06


@given(
    st.integers(0, 10**6),
    st.integers(20, 80),
    st.sampled_from([0.3, 0.6]),
    st.sampled_from(["clip", "mix"]),
)
def test_with_the_rows_as_the_truth_beta_is_that_of_the_log(seed, rows, alpha, family):
    rng = np.random.default_rng(seed)
    loss = (rng.random(rows) < 0.05).astype(float) if seed % 2 else rng.random(rows) * 0.3
    order = np.argsort(log_ratio := rng.normal(0.5 * loss, 0.8), kind="stable")
    share = np.full(rows, 1 / rows)
    truth = Population(share, loss[order], log_ratio[order], float(loss.mean()))
    model = ConfidenceModel(truth, RepresentativeLog.from_population(truth), family, 0.1)
    scores = np.zeros(rows), truth.log_ratio
    log, proposals = tether.Log({"loss": truth.loss}, *scores), tether.Proposals(*scores)
    problem = pose(log, proposals, find_family(family), "empirical")
    found = certified_beta(problem, [Constraint("loss", alpha, 1.0)], 0.9)
    assert model.outlook(alpha, rows).beta == pytest.approx(np.exp(found.log_beta), rel=1e-9)
    assert model.passes(alpha, rows) == (found.log_beta > -np.inf)


def test_a_promise_with_a_confidence_is_the_alpha_that_is_certified():
    given_both = {"safe_risk": 0.05, "optimized_risk": 0.2, "confidence": 0.9}
    by_promise, by_alpha = (
        tether.plan(**given_both, **{name: 0.1}) for name in ("promise", "alpha")
    )
    assert by_promise.rows_likely == by_alpha.rows_likely
    assert by_promise.betas == by_alpha.betas
    assert {stated for _, stated in by_promise.promises} == {0.1}
    too_few = tether.plan(alpha=0.1, rows=20, **given_both)
    assert too_few.betas == ((20, 0.0),)
    assert too_few.promises == ((20, 1.0),)


def test_more_rows_are_needed_for_more_confidence_and_no_number_below_the_safe_risk():
    rows = [
        tether.plan(alpha=0.1, safe_risk=0.05, confidence=each).rows_likely
        for each in (0.5, 0.9, 0.99)
    ]
    assert rows == sorted(set(rows))
    assert not tether.plan(alpha=0.05, safe_risk=0.05, confidence=0.9).possible
    assert tether.plan(alpha=0.1, safe_risk=0.05, confidence=0.9) == tether.plan(
        alpha=0.1, safe_risk=0.05, confidence=0.9
    )
    with pytest.raises(ValueError, match="more than 1e"):
        tether.plan(alpha=0.1, safe_risk=0.1 - 1e-9, confidence=0.9)
    for wrong in (0, 1, 1.5):
        with pytest.raises(ValueError, match="confidence must be above 0 and below 1"):
            tether.plan(alpha=0.1, safe_risk=0.05, confidence=wrong)


def test_many_rows_are_not_counted_exactly_and_agree_with_those_that_are(monkeypatch):
    asked = {"alpha": 0.1, "safe_risk": 0.07, "confidence": 0.95}
    exact = tether.plan(**asked).rows_likely
    monkeypatch.setattr("tether.planning.rows_needed.MAX_EXACT_HARMFUL", 0)
    assert tether.plan(**asked).rows_likely == pytest.approx(exact, rel=0.03)
    assert tether.plan(**{**asked, "safe_risk": 0.0999}).rows_likely > 10**7


@pytest.mark.parametrize("bound", [1.0, 20.0])
def test_every_point_of_the_curve_is_a_plan(bound):
    risks = {"safe_risk": 0.05 * bound, "bound": bound, "confidence": 0.9}
    made = tether.plan(alpha=0.1 * bound, **risks)
    table_of = made.curve(points=4)
    for alpha, needed, likely in zip(*table_of.values(), strict=True):
        one = tether.plan(alpha=float(alpha), **risks)
        assert (one.rows_needed, one.rows_likely) == (needed, likely)


def test_all_that_is_printed_says_the_confidence():
    made = tether.plan(promise=0.1, safe_risk=0.05, confidence=0.9)
    text = " ".join(str(made).split())
    assert text.startswith(
        f"plan: {made.rows_likely:,} rows of the safe policy with confidence 0.9"
    )
    assert "tolerated promise 0.1 with confidence 0.9, of losses up to 1" in text
    assert f"about {made.rows_needed:,} rows to certify this promise" in text
    assert made.to_dict()["confidence"] == 0.9
    assert set(made.to_frame()["confidence"]) == {0.9}
    assert "with confidence 0.9" in made._repr_html_()
    (axes,) = made.plot().axes
    assert axes.get_title(loc="left").startswith("promise 0.1 with confidence 0.9: ")
    plain = tether.plan(promise=0.1, safe_risk=0.05)
    assert "confidence" not in str(plain)
    assert "confidence" not in plain.to_frame()


def test_a_plan_of_mix_says_what_the_log_certifies():
    truth = propensities("", promise=0.05, confidence=0.9, family="mix")
    log = truth.log(slice(0, 3000))
    made, found = tether.plan(log, **truth.asked), tether.calibrate(log, **truth.asked)
    assert made.beta_of_log == found.beta > 0
    of_two = tether.Log(
        log.loss, log.log_safe, log.log_optimized, log_mix=log.log_safe, max_ratio=4.0, safe_share=1
    )
    assert tether.plan(of_two, **truth.asked).beta_of_log is None


def test_where_half_of_all_logs_have_no_loss_their_rows_are_what_is_needed():
    asked = {"alpha": 0.1, "safe_risk": 0.005, "confidence": 0.95}
    made = tether.plan(**asked, pass_probability=0.5)
    assert made.rows_needed == made.rows_likely == 32
    assert made.rows_needed == tether.plan(**{**asked, "safe_risk": 0.0}).rows_needed
