import numpy as np
import pytest
from scipy import stats

import tether

COVARIANCE = np.array([[2.0, 0.6], [0.6, 0.5]])


def test_scores_agree_with_scipy():
    rng = np.random.default_rng(0)
    line, plane = rng.normal(size=20), rng.normal(size=(20, 2))
    assert np.allclose(tether.Gaussian(1.0, 2.0).log_prob(20, line), stats.norm(1, 2).logpdf(line))
    assert np.allclose(tether.Gaussian(0).log_prob(None, line), stats.norm.logpdf(line))
    diagonal = tether.Gaussian([1.0, -1.0], [0.5, 3.0]).log_prob(20, plane)
    expected = stats.multivariate_normal([1, -1], np.diag([0.25, 9.0])).logpdf(plane)
    assert np.allclose(diagonal, expected)
    full = tether.Gaussian([1.0, -1.0], covariance=COVARIANCE).log_prob(20, plane)
    assert np.allclose(full, stats.multivariate_normal([1, -1], COVARIANCE).logpdf(plane))


def test_scores_in_contexts_agree_with_scipy():
    rng = np.random.default_rng(1)
    x, line, plane = rng.normal(size=20), rng.normal(size=20), rng.normal(size=(20, 2))
    policy = tether.Gaussian(lambda x: 2 * x, lambda x: np.exp(x))
    assert np.allclose(policy.log_prob(x, line), stats.norm(2 * x, np.exp(x)).logpdf(line))
    policy = tether.Gaussian(lambda x: np.column_stack([x, -x]), 2.0)
    expected = stats.norm(np.column_stack([x, -x]), 2).logpdf(plane).sum(axis=1)
    assert np.allclose(policy.log_prob(x, plane), expected)
    policy = tether.Gaussian(lambda x: np.column_stack([x, -x]), covariance=COVARIANCE)
    off = plane - np.column_stack([x, -x])
    expected = stats.multivariate_normal([0, 0], COVARIANCE).logpdf(off)
    assert np.allclose(policy.log_prob(x, plane), expected)
    policy = tether.Gaussian(0.0, lambda x: np.column_stack([np.exp(x), np.exp(-x)]))
    expected = stats.norm(0, np.column_stack([np.exp(x), np.exp(-x)])).logpdf(plane).sum(axis=1)
    assert np.allclose(policy.log_prob(x, plane), expected)
    policy = tether.Gaussian([1.0, 2.0], lambda x: np.exp(x))
    expected = stats.norm([1, 2], np.exp(x)[:, None]).logpdf(plane).sum(axis=1)
    assert np.allclose(policy.log_prob(x, plane), expected)


def test_draws_have_the_stated_distribution():
    rng = np.random.default_rng(2)
    assert stats.kstest(tether.Gaussian(3.0, 2.0).sample(5000, rng), "norm", (3, 2)).pvalue > 1e-3
    policy = tether.Gaussian([1.0, -1.0], covariance=COVARIANCE)
    actions = policy.sample(20_000, rng)
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (actions - [1, -1]).T)
    for row in (*white, white.sum(axis=0) / np.sqrt(2)):
        assert stats.kstest(row, "norm").pvalue > 1e-3
    x = rng.normal(size=5000)
    actions = tether.Gaussian(lambda x: x, [0.1, 2.0]).sample(x, rng)
    assert actions.shape == (5000, 2)
    assert stats.kstest((actions[:, 1] - x) / 2, "norm").pvalue > 1e-3
    assert tether.Gaussian([0.0, 1.0]).sample(3, rng).shape == (3, 2)
    assert tether.Gaussian([0.0, 1.0], lambda x: x).sample(np.ones(3), rng).shape == (3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": np.nan}, "mean"),
        ({"mean": 0.0, "scale": 0.0}, "scale"),
        ({"mean": [0.0, 1.0], "scale": [1.0, -1.0]}, r"scale\[1\] is -1"),
        ({"mean": 0.0, "scale": 1.0, "covariance": np.eye(1)}, "not both"),
        ({"mean": [0.0, 0.0], "covariance": [[1.0, 0.5], [0.4, 1.0]]}, "symmetric"),
        ({"mean": np.zeros((3, 2))}, r"mean must be a number or a vector.*\(3, 2\)"),
        ({"mean": 0.0, "scale": np.ones((2, 2))}, "scale must be a number or a vector"),
        ({"mean": []}, "mean must be a number or a vector"),
        ({"mean": [0.0, 0.0], "scale": np.ones(3)}, "mean has 2 coordinates but scale has 3"),
        ({"mean": 0.0, "covariance": np.eye(2)}, "covariance is of 2"),
        ({"mean": [0.0, 0.0], "covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
    ],
)
def test_invalid_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tether.Gaussian(**options)


def test_actions_and_parameters_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"actions has shape \(3, 2\), expected \(3,\)"):
        tether.Gaussian(0.0).log_prob(3, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="actions has 3 rows"):
        tether.Gaussian(lambda x: x).log_prob(np.zeros(4), np.zeros(3))
    with pytest.raises(ValueError, match="mean returned shape"):
        tether.Gaussian(lambda x: x[:1]).log_prob(np.zeros(4), np.zeros(4))
    with pytest.raises(ValueError, match="covariance is of 2"):
        tether.Gaussian(lambda x: x, covariance=COVARIANCE).log_prob(np.ones(4), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="mean has 2 coordinates but scale has 3"):
        tether.Gaussian([0.0, 0.0], lambda x: np.ones((len(x), 3))).sample(
            np.ones(4), np.random.default_rng(0)
        )
    with pytest.raises(TypeError, match="mean must hold real numbers"):
        tether.Gaussian("a")
    with pytest.raises(TypeError, match="actions must have one row"):
        tether.Gaussian(0.0).log_prob(1, 0.0)
