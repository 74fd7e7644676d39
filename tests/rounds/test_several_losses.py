"""A run with several losses: each has its limit, its monitor and its silence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.scale import scaled
from tether.rounds import (
    Controller,
    LossesMissingError,
    verify_store,
)

ALPHA = {"harm": 0.2, "delay": 1.0}
BOUND = {"harm": 1.0, "delay": 4.0}
SAFE = tether.Gaussian(0.0)


def open_run(store="sqlite://", **options):
    options = {"alpha": ALPHA, "bound": BOUND, "max_silence": None} | options
    return Controller(SAFE, store=store, **options)


def both_losses(actions):
    return {"harm": (actions > 1.5).astype(float), "delay": np.clip(1.0 + actions, 0, 4) / 2}


def filled(run, rows=400, seed=0):
    taken = run.begin().act(rows, np.random.default_rng(seed))
    run.observe(taken.ids, both_losses(taken.actions))
    return taken


def test_beta_is_that_of_calibrating_by_hand():
    run = open_run(calibration_share=1.0)
    taken = filled(run)
    optimized = tether.Gaussian(0.8)
    begun = run.begin(optimized).calibration
    rng = np.random.default_rng([0, 2, 7919])
    log = tether.make_log(SAFE, optimized, None, taken.actions, both_losses(taken.actions))
    drawn = tether.make_proposals(SAFE, optimized, None, 1000, rng)
    by_hand = tether.calibrate(log, drawn, alpha=ALPHA, bound=BOUND)
    assert begun.beta == by_hand.beta
    assert begun.losses.keys() == {"harm", "delay"}
    for name, each in begun.losses.items():
        assert each.promise == pytest.approx(by_hand.losses[name].promise)
    assert [each.log_beta for each in begun.losses.values()] == [
        each.log_beta for each in by_hand.losses.values()
    ]
    assert 0 < begun.beta < np.inf


def test_each_loss_may_arrive_on_its_own_and_late():
    run = open_run()
    taken = run.begin().act(100, np.random.default_rng(1))
    losses = both_losses(taken.actions)
    run.observe(taken.ids[::-1], {"delay": losses["delay"][::-1]}, rewards=taken.actions[::-1])
    assert len(run.pending()) == 100
    assert len(run.training_rows()) == 0
    with pytest.raises(LossesMissingError, match="0 of"):
        run.begin(tether.Gaussian(0.1))
    run.observe(taken.ids, {"harm": losses["harm"]})
    assert len(run.pending()) == 0
    rows = run.training_rows()
    kept = np.isin(taken.ids, rows.ids)
    for name, values in losses.items():
        np.testing.assert_array_equal(rows.losses[name], values[kept])
    np.testing.assert_array_equal(rows.reward, taken.actions[kept])
    with pytest.raises(ValueError, match=r"the run has the losses \['harm', 'delay'\]"):
        _ = rows.loss


def test_repeating_changes_nothing_and_contradicting_is_refused():
    run = open_run()
    taken = run.begin().act(4, np.random.default_rng(0))
    ids = taken.ids
    run.observe(ids[:2], {"harm": [0.0, 1.0]}, rewards=[5.0, 6.0])
    run.observe(ids[:2], {"harm": [0.0, 1.0]})
    run.observe(ids[:2], {"harm": [0.0, 1.0]}, rewards=[5.0, 6.0])
    run.observe(ids[:3], {"harm": [0.0, 1.0, 0.5], "delay": [1.0, 2.0, 3.0]})
    run.withdraw(ids[3:], "never carried out")
    run.withdraw(ids[3:], "never carried out")
    for given_ids, losses, rewards in [
        (ids[:1], {"harm": [0.5]}, None),
        (ids[:1], {"delay": [1.5]}, None),
        (ids[:1], {"harm": [0.0]}, [7.0]),  # another reward
        (ids[2:3], {"harm": [0.5]}, [7.0]),  # a reward with nothing new
        (ids[3:], {"delay": [0.0]}, None),  # withdrawn
    ]:
        with pytest.raises(ValueError, match="already observed or withdrawn with another result"):
            run.observe(given_ids, losses, rewards)
    with pytest.raises(ValueError, match="already observed"):
        run.withdraw(ids[2:3], "too late")
    rows = run._rows
    run._refresh()
    np.testing.assert_array_equal(rows.losses[:3], [[0, 1], [1, 2], [0.5, 3]])
    np.testing.assert_array_equal(rows.reward, [5, 6, np.nan, np.nan])
    assert rows.withdrawn.tolist() == [False, False, False, True]


def test_every_loss_has_its_own_monitor():
    run = open_run(alarm_risk={"delay": 1.5})
    filled(run)
    assert run.settings.limits["harm"].alarm_risk == pytest.approx(0.3)
    begun = run.begin(tether.Gaussian(0.1))
    taken = begun.act(200, np.random.default_rng(3))
    run.observe(taken.ids, {"harm": np.zeros(200)})
    assert run.history().alarm is None
    run.observe(taken.ids, {"delay": np.full(200, 4.0)})
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round) == ("risk", 2)
    assert alarm.message.startswith("delay: ")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE tether_observations SET which = 2 WHERE action = 5 AND which = 0", "observations"),
        ("UPDATE tether_observations SET which = 7 WHERE action = 5 AND which = 1", "observations"),
        ("UPDATE tether_observations SET loss = 0 WHERE which = 1 AND action = 9", "observations"),
        ("DELETE FROM tether_observations WHERE which = 1 AND action = 9", "observations"),
        (
            "UPDATE tether_settings SET value = replace(value, '0.2', '0.9') WHERE name = 'limits'",
            "settings",
        ),
    ],
)
def test_changed_losses_are_named(tmp_path, statement, words):
    with open_run(tmp_path / "run.db") as run:
        filled(run, rows=60)
        with run._store._engine.begin() as connection:
            connection.exec_driver_sql(statement)
    found = " ".join(map(str, verify_store(tmp_path / "run.db").findings))
    assert words in found


STEP = st.tuples(
    st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True),
    st.sets(st.sampled_from(["harm", "delay"]), min_size=1),
    st.booleans(),
    st.sampled_from(["observe", "observe", "observe", "withdraw"]),
    st.integers(0, 2),
)


@settings(max_examples=scaled(15), deadline=None)
@given(st.lists(STEP, max_size=12))
def test_any_order_of_reports_gives_what_a_dictionary_would(steps):
    """Every call is accepted or refused as a plain model of the rules says."""
    run = open_run()
    ids = run.begin().act(8, np.random.default_rng(0)).ids
    losses, rewards, withdrawn = {}, {}, set()
    for places, names, with_reward, what, version in steps:
        if what == "withdraw":
            fits = all((place in withdrawn) or not losses.get(place) for place in places)
            if fits:
                withdrawn |= set(places)
                run.withdraw(ids[places], "never carried out")
            else:
                with pytest.raises(ValueError, match="already observed"):
                    run.withdraw(ids[places], "never carried out")
            continue
        values = {name: [0.25 * version + place / 64 for place in places] for name in names}
        reward = [float(version + place) for place in places] if with_reward else None
        fits = True
        for k, place in enumerate(places):
            known = losses.get(place, {})
            fits &= place not in withdrawn
            fits &= all(known.get(name, values[name][k]) == values[name][k] for name in names)
            is_new = any(name not in known for name in names)
            if reward is not None:
                fits &= rewards.get(place) == reward[k] or (place not in rewards and is_new)
        if not fits:
            with pytest.raises(ValueError, match="already observed or withdrawn"):
                run.observe(ids[places], values, reward)
            continue
        run.observe(ids[places], values, reward)
        for k, place in enumerate(places):
            losses.setdefault(place, {}).update({name: values[name][k] for name in names})
            if reward is not None:
                rewards[place] = reward[k]
    run._refresh()
    rows = run._rows
    for place in range(8):
        expected = [losses.get(place, {}).get(name, np.nan) for name in ("harm", "delay")]
        np.testing.assert_array_equal(rows.losses[place], expected)
        np.testing.assert_equal(rows.reward[place], rewards.get(place, np.nan))
        assert rows.withdrawn[place] == (place in withdrawn)
    record = run.history().rounds[0]
    counts = [sum(name in each for each in losses.values()) for name in ("harm", "delay")]
    assert record.observed == min(counts)
    assert record.withdrawn == len(withdrawn)
    assert (0 if record.reward is None else record.reward.count) == len(rewards)
