"""A log must contain the actions that its policies say it contains."""

import numpy as np
import pytest

import tether

NAMES = np.array(["call", "email", "none"])
SAFE = tether.Categorical.from_probabilities([0.2, 0.4, 0.4], NAMES)
NEVER_CALLS = tether.Categorical.from_probabilities([0.0, 0.5, 0.5], NAMES)
NEW = tether.Categorical.from_probabilities([0.5, 0.3, 0.2], NAMES)
CALLS_NOBODY = tether.Categorical.from_probabilities([0.0, 0.6, 0.4], NAMES)


def rows_of(policy, count=2000, seed=0):
    rng = np.random.default_rng(seed)
    contexts = np.arange(count) % 5
    actions = policy.sample(contexts, rng)
    return contexts, actions, (rng.random(count) < 0.05).astype(float)


def propensities_of(policy, contexts, actions):
    return np.exp(policy.log_prob(contexts, actions))


@pytest.mark.parametrize("contextual", [True, False])
def test_an_action_that_must_be_there_and_is_not_is_an_error(contextual):
    contexts, actions, losses = rows_of(NEVER_CALLS)
    contexts = contexts if contextual else None
    given = {"propensities": np.full(len(actions), 0.5), "min_propensity": 0.5}
    with pytest.raises(ValueError, match=r"'call' is in 0 of 2,000 rows, but min_propensity = 0.5"):
        tether.make_log(None, NEW, contexts, actions, losses, **given)
    with pytest.raises(ValueError, match=r"'call' is in 0 of 2,000 rows, .* about 400"):
        tether.make_log(SAFE, NEW, contexts, actions, losses)
    with pytest.raises(ValueError, match=r"'call' is in 0 of 2,000 rows"):
        tether.make_log(NEVER_CALLS, NEW, contexts, actions, losses, logged_by=SAFE)


def test_an_action_that_may_be_missing_is_no_error():
    contexts, actions, losses = rows_of(NEVER_CALLS)
    few = slice(0, 10)
    tether.make_log(SAFE, NEW, contexts[few], actions[few], losses[few])  # by chance
    tether.make_log(SAFE, CALLS_NOBODY, contexts[few], actions[few], losses[few])
    tether.make_log(NEVER_CALLS, NEW, contexts, actions, losses)  # said to be impossible
    given = {"propensities": np.full(len(actions), 0.5)}
    tether.make_log(None, NEW, contexts, actions, losses, **given)  # nothing was said
    tether.make_log(None, CALLS_NOBODY, contexts, actions, losses, min_propensity=0.4, **given)


def test_an_action_that_is_there_too_rarely_is_named():
    contexts, actions, losses = rows_of(SAFE, 5000)
    kept = (actions != "call") | (np.arange(5000) % 10 == 0)
    rows = contexts[kept], actions[kept], losses[kept]
    given = {"propensities": propensities_of(SAFE, *rows[:2]), "min_propensity": 0.2}
    for safe, more in ((SAFE, {}), (None, given)):
        with pytest.warns(tether.AssumptionWarning, match=r"'call' \(\d\.\d% instead of 50.0%"):
            tether.make_log(safe, NEW, *rows, **more)


def test_propensities_of_something_else_are_noticed():
    contexts, actions, losses = rows_of(SAFE, 5000)
    wrong = 1 - propensities_of(SAFE, contexts, actions)
    with pytest.warns(tether.AssumptionWarning, match="the log contains less of what"):
        log = tether.make_log(
            None, NEW, contexts, actions, losses, propensities=wrong, min_propensity=0.2
        )
    with pytest.warns(tether.AssumptionWarning, match="nothing useful is promised"):
        assert not tether.calibrate(log, alpha=0.1, family="mix").useful


def test_true_logs_are_accepted_without_a_word():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        safe, new = (
            tether.Categorical.from_probabilities(rng.dirichlet(np.full(4, 0.5), size=5))
            for _ in range(2)
        )
        contexts, actions, losses = rows_of(safe, int(rng.integers(5, 600)), seed)
        tether.make_log(safe, new, contexts, actions, losses)
        tether.make_log(safe, new, contexts, actions, losses, logged_by=safe)


def test_the_warning_points_at_the_line_of_the_user():
    contexts, actions, losses = rows_of(SAFE, 5000)
    kept = (actions != "call") | (np.arange(5000) % 10 == 0)
    with pytest.warns(tether.AssumptionWarning) as caught:
        tether.make_log(SAFE, NEW, contexts[kept], actions[kept], losses[kept])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("promise", [0.2, 0.06])
def test_what_is_restricted_says_so_and_can_be_served(promise):
    contexts, actions, losses = rows_of(NEVER_CALLS)
    found = tether.calibrate(
        tether.make_log(NEVER_CALLS, NEW, contexts, actions, losses), promise=promise
    )
    assert found.useful
    assert found.outside_share == pytest.approx(0.5)
    assert "as it is" not in str(found)
    assert any("50.0% of the optimized" in each and "('call')" in each for each in found.warnings)
    policy = tether.Tethered(NEVER_CALLS, NEW, found)
    table = np.exp(policy.log_prob_all(contexts[:3]))
    assert table[:, 0].max() == 0
    assert table.sum(axis=1) == pytest.approx(1)
    assert set(policy.sample(contexts, np.random.default_rng(0))) == {"email", "none"}
    with pytest.raises(ValueError, match="takes actions that the safe policy never takes"):
        tether.Tethered(NEVER_CALLS, NEW, found, outside="error").log_prob_all(contexts[:3])
    again = tether.Calibration.from_dict(found.to_dict())
    assert tether.Tethered(NEVER_CALLS, NEW, again).log_prob_all(contexts[:3]).shape == (3, 3)


def test_the_restricted_policy_at_an_infinite_beta_is_what_was_calibrated():
    contexts, actions, losses = rows_of(NEVER_CALLS, 4000)
    found = tether.calibrate(
        tether.make_log(NEVER_CALLS, NEW, contexts, actions, losses), promise=0.2
    )
    assert found.beta == np.inf
    served = np.exp(tether.Tethered(NEVER_CALLS, NEW, found).log_prob(contexts, actions))
    weights = served / 0.5
    risk = (weights @ losses + weights.max()) / (weights.sum() + weights.max())
    assert found.risk == pytest.approx(risk)


def test_a_calibration_keeps_what_the_log_was_warned_of(tmp_path):
    contexts, actions, losses = rows_of(SAFE, 5000)
    kept = (actions != "call") | (np.arange(5000) % 10 == 0)
    with pytest.warns(tether.AssumptionWarning, match="'call'"):
        log = tether.make_log(SAFE, NEW, contexts[kept], actions[kept], losses[kept])
    (message,) = log.warnings
    found = tether.calibrate(log, alpha=0.2, family="mix")
    assert not found.useful
    assert message in found.warnings
    found.save(tmp_path / "found.json")
    assert message in tether.Calibration.load(tmp_path / "found.json").warnings
    assert "log contains less of what the optimized policy does" in found._repr_html_()
