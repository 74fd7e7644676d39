import numpy as np
import pytest

from tests.release.exact_releases import best_stopping_excess, excess, pooled_excess, ramp_excess
from tests.release.test_share_formulas import calibrated, exact
from tether.release import replaces_window

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


def test_the_start_is_what_even_the_largest_loss_could_not_hurt():
    assert excess(rule(exact, 0.15), 0, 1.0, 0.15, ALPHA) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["rows", "latest"])
def test_counts_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 0"):
        replaces_window(**{"rows": 1, "latest": 1, name: -1})
    assert replaces_window(0, 0)
    assert replaces_window(np.int64(4), 1)
