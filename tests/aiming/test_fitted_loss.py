"""Fitted loss models: calibrated where there is something to learn, constant where there is not."""

import numpy as np
import pytest

import tether
from tether.aiming import fit_loss


def logistic(values):
    return 1 / (1 + np.exp(-values))


def rows_of(n, seed=0, harm=lambda x, a: logistic(2 * x - 2 + a)):
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=n), rng.integers(3, size=n)
    return x, a, (rng.random(n) < harm(x, a)).astype(float), rng


def test_it_learns_a_logistic_loss():
    x, a, losses, rng = rows_of(4_000)
    model = fit_loss(x, a, losses, rng=rng)
    fresh = np.linspace(-2, 2, 9)
    for action in range(3):
        expected = logistic(2 * fresh - 2 + action)
        found = model(fresh, np.full(9, action))
        assert np.abs(found - expected).max() < 0.08
    assert model.improvement > 0.05


def test_trees_are_taken_where_lines_do_not_fit():
    x, a, losses, rng = rows_of(6_000, harm=lambda x, a: np.where(np.abs(x) < 0.7, 0.05, 0.6))
    model = fit_loss(x, a, losses, rng=rng)
    assert model.kind == "trees"
    assert model(np.zeros(1), np.zeros(1, int))[0] < 0.12
    assert model(np.array([-1.5, 1.5]), np.zeros(2, int)) == pytest.approx([0.6, 0.6], abs=0.12)


@pytest.mark.parametrize("n", [20, 60, 250])
def test_shuffled_losses_leave_a_constant(n):
    kinds = []
    for seed in range(10):
        x, a, losses, rng = rows_of(n, seed)
        kinds.append(fit_loss(x, a, rng.permutation(losses), rng=rng).kind)
    assert kinds.count("constant") >= 8  # of ten; sometimes chance looks like a pattern


def test_predictions_are_calibrated_on_new_rows():
    x, a, losses, rng = rows_of(1_500, harm=lambda x, a: 0.02 + 0.2 * (x > 0) * (a == 2))
    model = fit_loss(x, a, losses, rng=rng)
    x, a, losses, _ = rows_of(50_000, 1, harm=lambda x, a: 0.02 + 0.2 * (x > 0) * (a == 2))
    predicted = model(x, a)
    assert predicted.mean() == pytest.approx(losses.mean(), rel=0.25)
    high = predicted > 0.1
    assert predicted[high].mean() == pytest.approx(losses[high].mean(), rel=0.35)


def test_fractions_and_other_bounds():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3_000)
    losses = 2 * np.clip(logistic(x) + rng.uniform(-0.1, 0.1, size=3_000), 0, 1)
    model = fit_loss(x, np.zeros(3_000, int), losses, bound=2.0, rng=rng)
    assert model(np.array([-1.0, 1.0]), np.zeros(2, int)) == pytest.approx(
        2 * logistic(np.array([-1.0, 1.0])), abs=0.1
    )


def test_weights_say_where_it_should_be_good():
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=2_000)
    losses = np.where(a == 1, 0.9, 0.1)
    model = fit_loss(None, np.zeros(2_000, int), losses, weights=np.where(a == 1, 1e-6, 1), rng=rng)
    assert model(3, np.zeros(3, int)) == pytest.approx(0.1, abs=0.02)


def test_labels_vectors_and_no_contexts():
    rng = np.random.default_rng(0)
    names = np.array(["a", "b"])[rng.integers(2, size=800)]
    losses = (rng.random(800) < np.where(names == "b", 0.5, 0.05)).astype(float)
    model = fit_loss(None, names, losses, rng=rng)
    assert model(2, np.array(["a", "b"])) == pytest.approx([0.05, 0.5], abs=0.08)
    points = rng.normal(size=(900, 2))
    losses = (rng.random(900) < logistic(3 * points[:, 0])).astype(float)
    model = fit_loss(None, points, losses, rng=rng)
    assert model(2, np.array([[-1.5, 0.0], [1.5, 0.0]])) == pytest.approx([0, 1], abs=0.1)


def test_what_the_safe_policy_avoids_is_a_hint():
    """Many actions, few losses, and a safe policy that knows: its log-probabilities help."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(4, 10))
    safe = tether.Categorical.from_logits(lambda x: -x @ slopes, actions=np.arange(10))
    contexts = rng.normal(size=(250, 4))
    actions = safe.sample(contexts, rng)
    truth = logistic(2 * contexts @ slopes - 3)
    losses = (rng.random(250) < truth[np.arange(250), actions]).astype(float)
    errors = []
    for policies in ((), (safe,)):
        model = fit_loss(contexts, actions, losses, rng=rng, policies=policies)
        errors.append(np.mean((model.loss_table(contexts, np.arange(10)) - truth) ** 2))
    assert errors[1] < 0.8 * errors[0]


def test_a_table_of_losses_is_that_of_every_pair():
    for n in (12, 500):  # a constant, and a fitted model
        x, a, losses, rng = rows_of(n)
        model = fit_loss(x, a, losses, rng=rng)
        pairs = model(np.repeat(x[:5], 3), np.tile(np.arange(3), 5)).reshape(5, 3)
        assert model.loss_table(x[:5], np.arange(3)) == pytest.approx(pairs)


def test_the_same_seed_gives_the_same_model():
    x, a, losses, _ = rows_of(500)
    first, second = (fit_loss(x, a, losses, rng=np.random.default_rng(3)) for _ in range(2))
    assert (first(x, a) == second(x, a)).all()


@pytest.mark.parametrize("losses", [np.zeros(50), np.ones(50)])
def test_losses_that_are_all_alike_give_a_constant(losses):
    model = fit_loss(None, np.arange(50) % 2, losses, rng=np.random.default_rng(0))
    assert model.kind == "constant"
    assert model(1, np.array([0]))[0] == pytest.approx(losses[0], abs=0.011)


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"losses": [0.5, 2.0]}, ValueError, "losses"),
        ({"losses": [0.5]}, ValueError, "losses has 1"),
        ({"contexts": np.array([{}, {}])}, TypeError, "loss model of your own"),
        ({"rng": 3}, TypeError, "rng"),
        ({"bound": 0}, ValueError, "bound"),
        ({"weights": [1.0]}, ValueError, "weights has 1"),
        ({"weights": [1.0, -1.0]}, ValueError, r"weights\[1\] is -1.0: expected a finite"),
        ({"weights": [1.0, np.inf]}, ValueError, r"weights\[1\] is inf: expected a finite"),
        ({"weights": [0.0, 0.0]}, ValueError, "weights must not all be 0"),
    ],
)
def test_wrong_arguments_are_named(changed, error, text):
    given = {
        "contexts": np.zeros(2),
        "actions": np.array([0, 1]),
        "losses": [0.0, 1.0],
        "rng": np.random.default_rng(0),
    }
    with pytest.raises(error, match=text):
        fit_loss(**(given | changed))


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_handful_of_losses_leave_a_constant(lost):
    rng = np.random.default_rng(0)
    losses = np.zeros(50)
    losses[:lost] = 1
    model = fit_loss(rng.normal(size=50), rng.integers(2, size=50), losses, rng=rng)
    assert model.kind == "constant"
    assert 0 < model(np.zeros(1), np.zeros(1, int))[0] < 0.1


def test_losses_are_spread_over_the_folds():
    """Six losses in fifty rows: no model is ever fitted on rows without any."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        losses = (np.arange(50) < 6).astype(float)
        fit_loss(rng.normal(size=50), rng.integers(2, size=50), losses, rng=rng)
