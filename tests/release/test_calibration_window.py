import numpy as np
import pytest

from tests.release.exact_releases import best_stopping_excess, pooled_excess, ramp_excess
from tests.release.test_share_formulas import calibrated, exact
from tether.release import replaces_window
from tether.release.calibration_window import LEAST_PART_OF_WINDOW
from tether.release.share_formulas import exact_share

ALPHA = 0.3


def rule(formula, old):
    known = {}

    def share(rows, losses):
        if (rows, losses) not in known:
            known[rows, losses] = formula(rows, losses, old, ALPHA)
        return known[rows, losses]

    return share


def by_rows(window, latest):
    return replaces_window(window[0], latest[0])


@pytest.mark.parametrize("old", [0.0, 0.15, 0.27])
@pytest.mark.parametrize("risk", [0.35, 0.5, 0.8, 1.0])
def test_every_step_of_a_release_is_within_alpha(old, risk):
    found = ramp_excess(rule(exact, old), 8, 6, risk, old, ALPHA, by_rows)
    assert (found <= 1 + 1e-12).all()
    assert old > 0.2 or found[-1] > 0.6


@pytest.mark.parametrize("old", [0.0, 0.15])
@pytest.mark.parametrize("risk", [0.35, 0.5, 1.0])
def test_every_step_is_within_alpha_where_steps_are_pooled(old, risk):
    """Few keys after many: several steps together replace the window."""
    keys = (8, 8, 1, 1, 1, 6)
    found = pooled_excess(rule(exact, old), keys, len(keys), risk, old, ALPHA, replaces_window)
    assert (found <= 1 + 1e-12).all()


def test_a_window_that_is_chosen_by_its_losses_breaks_alpha():
    share = rule(exact, 0.15)
    better = lambda window, latest: share(*latest) > share(*window)  # noqa: E731
    assert ramp_excess(share, 8, 6, 0.5, 0.15, ALPHA, better).max() > 1.2


def mean_risks(keys_of, old=0.05, risk=0.13, alpha=0.1, runs=4000, steps=14):
    """The mean risk of each step, its error, where `keys_of` the risk served come next."""
    rng, none = np.random.default_rng(3), np.zeros(runs)
    window, rows, losses, found = none, none, none, []
    share = exact_share(none, none, np.array(old), np.array(alpha))
    for _ in range(steps):
        served = (1 - share) * old + share * risk
        found.append(served)
        latest = rng.binomial(keys_of(served), share)
        rows, losses = rows + latest, losses + rng.binomial(latest, risk)
        taken = rows >= LEAST_PART_OF_WINDOW * window
        made = exact_share(rows, losses, np.array(old), np.array(alpha))
        share, window = np.where(taken, made, share), np.where(taken, rows, window)
        rows, losses = np.where(taken, 0, rows), np.where(taken, 0, losses)
    return np.mean(found, axis=1), np.std(found, axis=1) / np.sqrt(runs)


def test_keys_that_come_because_of_losses_break_alpha_and_others_do_not():
    """Many keys where the share is small, and hardly any where it is large: it stays so."""
    mean, error = mean_risks(lambda served: np.full(served.shape, 200))
    assert (mean <= 0.1 + 3 * error).all()
    mean, error = mean_risks(lambda served: np.where(served > 0.1, 1, 1000))
    assert (mean > 0.105 + 3 * error).any()


def test_computing_the_share_at_a_time_chosen_by_the_losses_breaks_alpha():
    """A person who advances the release when it looks good; the exact share suffers less."""
    excesses = [
        best_stopping_excess(rule(formula, 0.15), 60, 0.5, 0.15, ALPHA)
        for formula in (exact, calibrated)
    ]
    assert 1.1 < excesses[0] < excesses[1] < 1.6


@pytest.mark.parametrize("old", [0.0, 0.15])
def test_all_rows_are_below_alpha_in_exact_sums_though_nothing_proves_it(old):
    """The number of rows grows where losses were low: what looked too good is corrected."""
    for risk in (0.35, 0.5, 0.8):
        found = ramp_excess(rule(exact, old), 5, 5, risk, old, ALPHA)
        assert (found <= 1 + 1e-12).all()
