import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import tether
from tests.fit import chi_square, fits
from tether.policies.aligned_actions import in_order_of


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


ORDERED = np.array(["email", "none", "push"])
SHUFFLED = ["push", "none", "email"]


def _by_device(contexts):
    """Probabilities as a frame with one column per action, in alphabetical order."""
    phone = np.asarray(contexts) == "phone"
    table = np.where(phone[:, None], [[0.1, 0.2, 0.7]], [[0.6, 0.3, 0.1]])
    return pd.DataFrame(table, columns=ORDERED)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tether.Categorical.from_probabilities(_by_device, SHUFFLED),
        lambda: tether.Categorical.from_logits(lambda x: np.log(_by_device(x)), SHUFFLED),
        lambda: tether.Categorical(lambda x: np.log(_by_device(x)), SHUFFLED),
    ],
    ids=["probabilities", "logits", "log-probabilities"],
)
def test_the_columns_of_a_frame_that_a_function_returns_are_matched_by_name(make):
    policy, contexts = make(), np.array(["phone", "web"])
    assert np.allclose(np.exp(policy.log_prob(contexts, ["push", "push"])), [0.7, 0.1])
    drawn = policy.sample(np.repeat("phone", 4000), np.random.default_rng(0))
    assert chi_square(np.searchsorted(ORDERED, drawn), np.array([0.1, 0.2, 0.7])) > 1e-3
    # Brought into the order of another policy, and saved: still by name.
    model = tether.Categorical.from_probabilities([0.3, 0.3, 0.4], ["none", "push", "email"])
    reordered = in_order_of(model, policy)
    assert np.allclose(np.exp(reordered.log_prob(contexts, ["push", "push"])), [0.7, 0.1])


def test_the_columns_of_a_frame_are_matched_by_name():
    frame = _by_device(["phone", "web"])
    for make, table in (
        (tether.Categorical.from_probabilities, frame),
        (tether.Categorical.from_logits, np.log(frame)),
        (tether.Categorical, np.log(frame)),
    ):
        for policy in (make(table, SHUFFLED), make(table)):
            assert np.allclose(np.exp(policy.log_prob([0, 1], ["push", "push"])), [0.7, 0.1])
        with pytest.raises(ValueError, match="name each column by its action"):
            make(table.add_prefix("p_"), SHUFFLED)
    wrong = tether.Categorical.from_probabilities(
        lambda x: _by_device(x).add_prefix("p_"), actions=SHUFFLED
    )
    with pytest.raises(ValueError, match="the function's result has the columns 'p_email'"):
        wrong.log_prob_all(["phone"])


def test_the_beta_of_a_frame_does_not_depend_on_the_order_of_the_actions():
    rng = np.random.default_rng(3)
    device = rng.choice(["phone", "web"], size=2000)
    actions = rng.choice(ORDERED, size=2000)
    losses = (rng.random(2000) < 0.4 * (actions == "push")).astype(float)
    betas = {
        tether.calibrate(
            tether.make_log(
                None,
                tether.Categorical.from_probabilities(_by_device, order),
                device,
                actions,
                losses,
                propensities=np.full(2000, 1 / 3),
                min_propensity=1 / 3,
            ),
            alpha=0.15,
            family="mix",
        ).beta
        for order in (ORDERED, SHUFFLED)
    }
    assert len(betas) == 1
    assert 0 < betas.pop() < np.inf


def test_a_classifier_over_more_actions_takes_those_it_does_not_know_with_probability_zero():
    rng = np.random.default_rng(5)
    features, names = rng.normal(size=(60, 2)), rng.choice(["b", "d"], size=60)
    model = LogisticRegression().fit(features, names)
    plain = np.exp(tether.Categorical.from_classifier(model).log_prob_all(features))
    for actions in (["a", "b", "c", "d"], ["d", "c", "b"]):
        policy = tether.Categorical.from_classifier(model, actions, temperature=1.0)
        table = np.exp(policy.log_prob_all(features))
        np.testing.assert_allclose(table[:, [actions.index("b"), actions.index("d")]], plain)
        assert not table[:, actions.index("c")].any()
        assert set(policy.sample(features, rng)) <= {"b", "d"}
    with pytest.raises(ValueError, match="lacks 1 of 2, such as 'b'"):
        tether.Categorical.from_classifier(model, ["a", "d"])


def test_a_model_of_an_outcome_is_told_to_be_no_policy():
    rng = np.random.default_rng(5)
    features, opened = rng.normal(size=(60, 2)), rng.random(60) < 0.3
    for outcome in (opened, opened.astype(int)):
        model = LogisticRegression().fit(features, outcome)
        policy = tether.Categorical.from_classifier(model)
        with pytest.raises((ValueError, TypeError), match="predicts an outcome is no policy"):
            policy.log_prob(features, np.full(60, "email"))
    with pytest.raises(ValueError, match=r"expected one of 0, 1$"):
        policy.log_prob(features, np.full(60, 2))
    rates = tether.Categorical.from_probabilities(lambda x: np.full((len(x), 3), 0.05), ORDERED)
    with pytest.raises(ValueError, match=r"sum of 0\.15; if these are predictions for each action"):
        rates.log_prob_all(features)
