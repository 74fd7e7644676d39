"""Every policy of the package draws and scores the same after it was saved and loaded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import tether
from tests.saving import parts
from tests.saving.round_trip import round_trip
from tether.policies import EstimatedPolicy
from tether.policies.categorical import in_order_of
from tether.saving import CannotSaveError, policy_digest, policy_from_bytes, policy_to_bytes
from tether.saving.policy_kinds import _reordered_columns

NUMBERS = st.floats(-3, 3, allow_nan=False, width=64)
POSITIVE = st.floats(0.1, 3)


def normalized(values):
    return (np.asarray(values) / np.sum(values)).tolist()


CONTINUOUS = st.builds(tether.Gaussian, NUMBERS, POSITIVE)
FINITE = st.one_of(
    st.lists(NUMBERS, min_size=3, max_size=3).map(tether.Pool),
    st.lists(POSITIVE, min_size=3, max_size=3).map(
        lambda values: tether.Categorical.from_probabilities(normalized(values))
    ),
)


def nested(base):
    """Mixtures and tethered policies of each other, a few levels deep."""

    def grow(inner):
        weights = st.lists(POSITIVE, min_size=2, max_size=2)
        beta = st.one_of(POSITIVE, st.just(0.0), st.just(float("inf")))
        family = st.sampled_from(["clip", "mix", "budgeted_clip(3)"])
        return st.one_of(
            st.builds(lambda a, b, w: tether.Mixture([a, b], w), inner, inner, weights),
            st.builds(
                lambda a, b, t, f: tether.Tethered(a, b, t, family=f), base, inner, beta, family
            ),
        )

    return st.recursive(base, grow, max_leaves=4)


@given(nested(FINITE))
@settings(max_examples=60, deadline=None)
def test_nested_policies_over_finite_actions(policy):
    round_trip(policy)


@given(nested(CONTINUOUS))
@settings(max_examples=30, deadline=None)
def test_nested_policies_over_numbers(policy):
    data = policy_to_bytes(policy)
    loaded = policy_from_bytes(data)
    assert policy_to_bytes(loaded) == data
    drawn = [each.sample(3, np.random.default_rng(0)) for each in (policy, loaded)]
    assert drawn[0].tobytes() == drawn[1].tobytes()


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(NUMBERS, min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
@settings(max_examples=30, deadline=None)
def test_gaussians_with_a_covariance_keep_every_bit(rows):
    matrix = np.array(rows)
    covariance = matrix @ matrix.T + np.eye(len(rows))
    round_trip(tether.Gaussian(matrix[0], covariance=covariance))


def test_tables_by_context():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(3), 5)
    round_trip(tether.Categorical.from_probabilities(table, ["a", "b", "see"]), np.array([4, 0, 2]))


@pytest.mark.parametrize(
    "policy",
    [
        tether.Gaussian(parts.double, 0.3),
        tether.Gaussian(parts.double, covariance=None, scale=parts.double),
        tether.Categorical.from_logits(parts.flat_logits, ["x", "y", "z"], temperature=0.3),
        tether.Mixture.blend(tether.Gaussian(parts.double), tether.Gaussian(0.0), 0.03),
    ],
)
def test_functions_of_contexts_by_their_import_path(policy):
    round_trip(policy, np.array([0.5, 1.0, 2.0]))


def test_policies_of_two_functions():
    round_trip(tether.FunctionPolicy(parts.draw, parts.log_density, name="mine"))
    with pytest.raises(CannotSaveError, match=r"policy\.sample is a function that no import path"):
        policy_to_bytes(tether.FunctionPolicy(lambda n, rng: rng.normal(size=n), parts.log_density))


def test_an_estimated_ratio_and_what_is_approximate_about_it():
    rng = np.random.default_rng(0)
    ratio = tether.estimate_ratio(parts.draw, tether.Gaussian(0.5), 1_000, rng)
    loaded = round_trip(ratio.optimized)
    assert isinstance(loaded, EstimatedPolicy)
    assert loaded.approximate == ratio.optimized.approximate
    assert loaded.ratio_error == ratio.error
    round_trip(tether.Tethered(ratio.safe, ratio.optimized, 0.7, normalizer_draws=64))
    shortlist = tether.Shortlist(parts.draw, parts.score, size=4)
    picked = shortlist.with_optimized(ratio.optimized).tethered(2.0)
    round_trip(picked)


def test_the_ratio_itself_may_be_the_score_of_a_shortlist():
    rng = np.random.default_rng(0)
    ratio = tether.estimate_ratio(parts.draw, tether.Gaussian(0.5), 400, rng)
    policy = tether.Categorical.from_logits(ratio.log_ratio, ["only"])  # never called
    loaded = policy_from_bytes(policy_to_bytes(policy), allow_imports=["tests.saving.parts"])
    restored = loaded._function.function.__self__
    assert restored.measured == ratio.measured
    assert restored.safe_draws == 400


def test_a_class_derived_from_a_policy_is_not_taken_for_it():
    class Louder(tether.Gaussian):
        pass

    with pytest.raises(CannotSaveError, match=r"Louder, which is not known to tether.*tether_save"):
        policy_to_bytes(Louder(0.0))


def test_a_pool_of_acquisition_values():
    points = np.random.default_rng(0).normal(size=(20, 2))
    from tether.bo import AcquisitionPool

    loaded = round_trip(AcquisitionPool(lambda x: 3 * x[:, 0], points, 0.7), allow_imports=())
    assert np.array_equal(loaded.points([3]), points[[3]])


def test_the_digest_tells_policies_apart():
    policies = [tether.Gaussian(0.0), tether.Gaussian(-0.0), tether.Gaussian(5e-324)]
    policies += [tether.Gaussian(0.0, 2.0), tether.Pool([0.0]), tether.Pool([0.0, 0.0])]
    assert len({policy_digest(policy) for policy in policies}) == len(policies)


def test_a_model_with_its_actions_in_another_order():
    model = LogisticRegression().fit([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    policy = in_order_of(
        tether.Categorical.from_probabilities([0.2, 0.3, 0.5], actions=["c", "a", "b"]),
        tether.Categorical.from_classifier(model),
    )
    assert policy.actions.tolist() == ["c", "a", "b"]
    loaded = policy_from_bytes(policy_to_bytes(policy))
    contexts = np.linspace(0, 2, 5)[:, None]
    np.testing.assert_array_equal(loaded.log_prob_all(contexts), policy.log_prob_all(contexts))
    np.testing.assert_allclose(
        np.exp(policy.log_prob_all(contexts)), model.predict_proba(contexts)[:, [2, 0, 1]]
    )
    for order in ([0, 0, 1], [1, 2, 3], [0.0, 1.0, 2.0]):
        with pytest.raises(ValueError, match="order must name every column once"):
            _reordered_columns(tether.Categorical.from_classifier(model), np.array(order))
