"""How rounds aim: what is accepted, and what the store keeps of it."""

import numpy as np
import pytest

from tests.rounds.aims.aimed_runs import WORLD, new_run
from tether.aiming import LoggedRows
from tether.rounds import AimSettings
from tether.rounds.aims.aim_settings import as_aim_settings, stored_aim_settings
from tether.rounds.limits import Limit

LIMITS = {"harm": Limit(0.1, 1.0, 0.2), "delay": Limit(1.0, 5.0, 2.0)}


def test_true_means_the_default_and_false_none():
    assert as_aim_settings(True) == AimSettings()
    assert as_aim_settings(False) is None
    with pytest.raises(TypeError, match="aim must be True, False or"):
        as_aim_settings("yes")


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="not both"):
        AimSettings(loss_model=WORLD.harm, fit=lambda rows, rng: WORLD.harm)
    with pytest.raises(TypeError, match="fit must be a function"):
        AimSettings(fit=3)
    with pytest.raises(ValueError, match="multiples"):
        AimSettings(multiples=(0.0,))
    with pytest.raises(ValueError, match="standard_errors"):
        AimSettings(standard_errors=-1)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"multiples": []}, ValueError, "multiples must have at least one number"),
        ({"temperatures": 2.0}, TypeError, "temperatures must be a sequence of numbers, got 2.0"),
        ({"choose": "no"}, TypeError, "choose must be True or False, got 'no'"),
        ({"loss_model": 3}, TypeError, "loss_model must be a function"),
        ({"loss_model": {"harm": None}}, TypeError, "loss_model must be a function"),
    ],
)
def test_what_no_round_could_use_is_refused_at_once(settings, error, text):
    with pytest.raises(error, match=text):
        AimSettings(**settings)


def test_each_loss_has_its_model_and_its_bound():
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=300)
    losses = {"harm": actions.astype(float), "delay": 5.0 * actions}
    rows = LoggedRows(300, actions, losses, np.zeros(300))
    models = AimSettings().models(rows, rng, LIMITS)
    assert list(models) == ["harm", "delay"]
    assert models["delay"].bound == 5.0
    assert models["delay"](2, np.array([0, 1])) == pytest.approx([0.0, 5.0], abs=0.2)
    given = dict.fromkeys(LIMITS, WORLD.harm)
    assert AimSettings(loss_model=given).models(rows, rng, LIMITS) == given
    assert AimSettings(fit=lambda rows, rng: given).models(rows, rng, LIMITS) == given
    with pytest.raises(ValueError, match=r"a loss model for each of \['harm', 'delay'\]"):
        AimSettings(loss_model=WORLD.harm).models(rows, rng, LIMITS)
    with pytest.raises(ValueError, match=r"got \['harm'\]"):
        AimSettings(fit=lambda rows, rng: {"harm": WORLD.harm}).models(rows, rng, LIMITS)


def test_the_store_keeps_plain_values_and_refuses_others(tmp_path):
    aim = AimSettings(multiples=[1, 2], standard_errors=0.5)
    assert stored_aim_settings(aim.to_dict()) == aim
    assert stored_aim_settings(None) is None
    with pytest.raises(ValueError, match="pass aim="):
        stored_aim_settings(AimSettings(loss_model=WORLD.harm).to_dict())
    store = tmp_path / "run.db"
    new_run(store, aim=True).close()
    new_run(store, aim=AimSettings()).close()
    with pytest.raises(ValueError, match="aim is None but"):
        new_run(store, aim=False)
