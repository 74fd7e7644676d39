import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import tether
from tests.fit import chi_square, fits


def test_probabilities_logits_and_temperature_agree():
    probabilities = np.array([0.5, 0.3, 0.2])
    from_probabilities = tether.Categorical.from_probabilities(probabilities)
    from_logits = tether.Categorical.from_logits(np.log(probabilities) + 7)
    assert np.allclose(from_probabilities.log_prob_all(1), from_logits.log_prob_all(1))
    flat = tether.Categorical.from_logits(np.log(probabilities), temperature=1e9)
    assert np.allclose(np.exp(flat.log_prob_all(1)), 1 / 3)
    assert np.allclose(from_probabilities.log_prob(2, [0, 2]), np.log([0.5, 0.2]))


def test_contexts_are_rows_of_a_table_or_arguments_of_a_function():
    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    by_row = tether.Categorical.from_probabilities(table)
    by_function = tether.Categorical.from_probabilities(lambda x: table[x], actions=[0, 1])
    contexts = np.array([0, 1, 1])
    assert np.allclose(by_row.log_prob_all(contexts), by_function.log_prob_all(contexts))
    assert np.allclose(by_row.log_prob(contexts, [0, 0, 1]), np.log([0.9, 0.2, 0.8]))
    logits = tether.Categorical.from_logits(lambda x: np.log(table)[x], actions=["a", "b"])
    assert np.allclose(logits.log_prob(contexts, ["a", "a", "b"]), np.log([0.9, 0.2, 0.8]))


def test_draws_have_the_stated_distribution():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(5), size=3)
    policy = tether.Categorical.from_probabilities(table)
    contexts = np.repeat(np.arange(3), 4000)
    actions = policy.sample(contexts, rng)
    fits([chi_square(actions[contexts == x], table[x]) for x in range(3)])
    named = tether.Categorical.from_probabilities(table[0], actions=list("edcba"))
    drawn = named.sample(4000, rng)
    assert chi_square(np.searchsorted(list("abcde"), drawn), table[0][::-1]) > 1e-3


def test_a_classifier_is_a_policy():
    features, label = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[label]
    classifier = LogisticRegression(max_iter=1000).fit(features, names)
    policy = tether.Categorical.from_classifier(classifier)
    assert np.allclose(np.exp(policy.log_prob_all(features)), classifier.predict_proba(features))
    sharp = tether.Categorical.from_classifier(classifier, temperature=1e-3)
    drawn = sharp.sample(features, np.random.default_rng(1))
    assert (drawn == classifier.predict(features)).mean() > 0.98
    with pytest.raises(TypeError, match="fitted"):
        tether.Categorical.from_classifier(LogisticRegression())
    # Passed as it is, a classifier becomes a policy by itself.
    tethered = tether.Tethered(
        tether.Categorical.from_logits(np.zeros(3), names[[0, 50, 100]]), classifier, 1.0
    )
    assert np.allclose(np.exp(tethered.log_prob_all(features)).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tether.Categorical.from_probabilities([0.5, 0.6]), "got a sum of 1.1"),
        (lambda: tether.Categorical.from_probabilities([-0.5, 1.5]), r"probabilities\[0\] is -0.5"),
        (lambda: tether.Categorical.from_probabilities([np.nan, 1.0]), "nan"),
        (lambda: tether.Categorical.from_probabilities(0.5), "vector or a table"),
        (lambda: tether.Categorical.from_logits([np.inf, 0.0]), r"logits\[0\] is inf"),
        (lambda: tether.Categorical.from_logits([]), "logits is empty"),
        (lambda: tether.Categorical.from_logits([[0.0], [-np.inf]]), "every action in row 1"),
        (lambda: tether.Categorical.from_logits([-np.inf, -np.inf]), "rule out every action"),
        (lambda: tether.Categorical.from_logits([0.0, 0.0], temperature=0), "temperature"),
        (lambda: tether.Categorical.from_logits([0.0, 0.0], actions=["a"]), "actions has 1"),
        (lambda: tether.Categorical.from_logits([0.0, 0.0], actions=["a", "a"]), "distinct"),
        (lambda: tether.Categorical.from_logits(lambda x: x), "actions is required"),
    ],
)
def test_invalid_tables_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_actions_of_mixed_types_are_refused():
    make = tether.Categorical.from_probabilities
    for actions in (["a", 1], [{}, 1]):
        with pytest.raises(TypeError, match="all numbers or all strings"):
            make([0.5, 0.5], actions=actions)
    for call in (
        lambda: make([0.5, 0.5], actions=[None, 1]),
        lambda: make([0.5, 0.5]).log_prob(None, [None, 1]),
    ):
        with pytest.raises(ValueError, match=r"actions\[0\] is missing \(None"):
            call()
    with pytest.raises(TypeError, match=r"actions must be among 0, 1, got \[{}, 1\]"):
        make([0.5, 0.5]).log_prob(None, [{}, 1])
    with pytest.raises(TypeError, match="logits must hold real numbers"):
        tether.Categorical.from_logits(["a", "b"])


def test_huge_logits_and_small_temperatures_stay_finite():
    policy = tether.Categorical.from_logits([1e308, 0.0, 1e308], temperature=0.1)
    assert np.allclose(np.exp(policy.log_prob_all(1)), [[0.5, 0, 0.5]])


def test_unknown_actions_and_contexts_are_refused():
    policy = tether.Categorical.from_probabilities([[0.5, 0.5]], actions=["a", "b"])
    with pytest.raises(ValueError, match=r"actions\[1\] is .*'c'.*expected one of 'a', 'b'"):
        policy.log_prob([0, 0], ["a", "c"])
    with pytest.raises(ValueError, match="1 dimension"):
        policy.log_prob([0], [["a"]])
    with pytest.raises(ValueError, match="from 0 to 0, got 0 to 1"):
        policy.log_prob([0, 1], ["a", "a"])
    with pytest.raises(ValueError, match="row numbers"):
        policy.log_prob([0.5], ["a"])
    with pytest.raises(ValueError, match="row numbers"):
        policy.sample(3, np.random.default_rng(0))
    short = tether.Categorical(lambda x: np.log([[0.5, 0.5]]), actions=[0, 1])
    with pytest.raises(ValueError, match=r"returned shape \(1, 2\), expected \(3, 2\)"):
        short.log_prob_all(np.zeros(3))
