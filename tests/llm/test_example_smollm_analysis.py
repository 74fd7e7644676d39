"""What the worked example says of a deployed policy, in a world where it can be counted."""

import numpy as np
import pytest
from examples.smollm import analysis

SAFE = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
OPTIMIZED = np.array([[0.1, 0.1, 0.8], [0.2, 0.4, 0.4]])
LOSS, WORDS = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 5.0])


@pytest.fixture(scope="module")
def draws():
    rng, columns = np.random.default_rng(0), []
    for source, table in (("safe", SAFE), ("optimized", OPTIMIZED)):
        subject = np.repeat([0, 1], 20_000)
        action = np.array([rng.choice(3, p=table[each]) for each in subject])
        columns.append((subject, np.full(len(subject), source), action))
    subject, source, action = map(np.concatenate, zip(*columns, strict=True))
    return {
        "subject": subject,
        "source": source,
        "log_safe": np.log(SAFE[subject, action]),
        "log_optimized": np.log(OPTIMIZED[subject, action]),
        "loss": LOSS[action],
        "words": WORDS[action],
    }


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_deployed_policy_is_what_counting_says(draws, family, beta):
    if family == "clip":
        kernel = np.minimum(OPTIMIZED, beta * SAFE)
        drawn = (min(beta, 1) / kernel.sum(axis=1)).mean()
    else:
        kernel, drawn = (SAFE + beta * OPTIMIZED) / (1 + beta), 1.0
    density = kernel / kernel.sum(axis=1, keepdims=True)
    expected = (density @ LOSS).mean(), (density @ WORDS).mean(), drawn
    everything = np.arange(len(draws["loss"]))
    found = analysis.deployed(draws, everything, family, np.log(beta))
    assert found == pytest.approx(expected, rel=0.03)
