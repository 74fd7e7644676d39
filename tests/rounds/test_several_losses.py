"""A run with several losses: each has its limit, its monitor and its silence."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.scale import scaled
from tether.rounds import (
    Controller,
    LossesMissingError,
    export_run,
    import_run,
    read_history,
    reopen,
    verify_store,
)
from tether.rounds.store import schema

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
    assert begun.promises == by_hand.promises
    assert set(begun.promises) == {"harm", "delay"}
    assert begun.log_beta_by_constraint == by_hand.log_beta_by_constraint
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


def test_a_missing_loss_counts_as_its_own_bound():
    run = open_run(missing="worst_case", calibration_share=1.0)
    taken = run.begin().act(300, np.random.default_rng(1))
    losses = both_losses(taken.actions)
    run.observe(taken.ids, {"harm": losses["harm"]})
    run.observe(taken.ids[:290], {"delay": losses["delay"][:290]})
    losses["delay"][290:] = BOUND["delay"]
    begun = run.begin(tether.Gaussian(0.3))
    log = tether.make_log(SAFE, tether.Gaussian(0.3), None, taken.actions, losses)
    drawn = tether.make_proposals(
        SAFE, tether.Gaussian(0.3), None, 1000, np.random.default_rng([0, 2, 7919])
    )
    assert begun.beta == tether.calibrate(log, drawn, alpha=ALPHA, bound=BOUND).beta
    assert begun.note == "10 of 300 calibration rows without a loss count as the worst loss"


def test_rows_without_all_their_losses_are_excluded():
    run = open_run(missing="exclude", calibration_share=1.0)
    taken = run.begin().act(300, np.random.default_rng(1))
    losses = both_losses(taken.actions)
    run.observe(taken.ids[:200], {"harm": losses["harm"][:200]})
    run.observe(taken.ids[100:], {"delay": losses["delay"][100:]})
    assert run.begin(tether.Gaussian(0.3)).calibration.rows == 100


def test_what_is_observed_is_checked_by_name():
    run = open_run()
    taken = run.begin().act(3, np.random.default_rng(0))
    for losses, words in [
        ([0, 0, 0], r"losses must be a mapping with some of the names \['harm', 'delay'\]"),
        ({}, "losses must have names among"),
        ({"cost": [0, 0, 0]}, r"losses must have names among .* got \['cost'\]"),
        ({"harm": [0, 2, 0]}, r"losses\['harm'\]\[1\] is 2.0: .*at most bound = 1"),
        (
            {"harm": [0, 0, 0], "delay": [0, 5, 0]},
            r"losses\['delay'\].*at most bound = 4",
        ),
        ({"harm": [0, 0]}, r"losses\['harm'\] has 2"),
        ({"harm": [0, np.nan, 0]}, r"losses\['harm'\]"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            run.observe(taken.ids, losses)
    assert len(run.pending()) == 3


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


def test_a_loss_may_have_any_printable_name(tmp_path):
    names = ("nan", "inf", "family", "name", "round 1", "loss", "é ∞", "observed", "alpha")
    alpha = dict.fromkeys(names, 0.3)
    with Controller(SAFE, store=tmp_path / "run.db", alpha=alpha) as run:
        taken = run.begin().act(60, np.random.default_rng(0))
        run.observe(taken.ids, dict.fromkeys(names, np.full(60, 0.25)))
        begun = run.begin(tether.Gaussian(0.1))
        assert set(begun.calibration.promises) == set(names)
        more = begun.act(10, np.random.default_rng(0))
        run.observe(more.ids, dict.fromkeys(names, np.full(10, 0.5)))
    with Controller(SAFE, store=tmp_path / "run.db", alpha=alpha) as run:
        history = run.history()
        for record, mean in zip(history.rounds, (0.25, 0.5), strict=True):
            assert {name: each.mean for name, each in record.losses.items()} == dict.fromkeys(
                names, mean
            )
    assert all(each.ok is not False for each in verify_store(tmp_path / "run.db").findings)


def test_every_loss_has_its_own_silence():
    run = open_run(max_silence=50)
    filled(run)
    begun = run.begin(tether.Gaussian(0.1))
    for _ in range(4):
        taken = begun.act(20, np.random.default_rng(3))
        run.observe(taken.ids, {"harm": np.zeros(20)})
    alarm = run.history().alarm
    assert alarm.monitor == "silence"
    assert "actions without a loss 'delay', the limit is 50" in alarm.message
    run.resume("delays are reported again", actor="Grace")
    assert len(begun.act(20, np.random.default_rng(3)))
    assert run.history().alarm is None


def test_a_run_keeps_its_losses_and_their_order(tmp_path):
    store = tmp_path / "run.db"
    with open_run(store) as run:
        filled(run)
    turned = {name: ALPHA[name] for name in ("delay", "harm")}
    with open_run(store, alpha=turned) as run:
        assert list(run.settings.limits) == ["harm", "delay"]
        assert run.begin(tether.Gaussian(0.2)).calibration.exists
    for other, words in [
        ({"alpha": {"harm": 0.2, "delay": 0.9}}, r"alpha\['delay'\] is 0.9 but .* with 1.0"),
        ({"alpha": {"harm": 0.2}, "bound": 1.0}, "was created with"),
        ({"alpha": {**ALPHA, "cost": 0.1}, "bound": 4.0}, "was created with"),
        ({"alpha": 0.2, "bound": 1.0}, r"alpha is 0.2 but .* with None"),
    ]:
        with pytest.raises(ValueError, match=words):
            open_run(store, **other)


def test_the_history_has_every_loss(tmp_path):
    run = open_run(tmp_path / "run.db")
    taken = filled(run, rows=100)
    more = run.begin(tether.Gaussian(0.2)).act(50, np.random.default_rng(9))
    run.observe(more.ids, {"harm": both_losses(more.actions)["harm"]})
    history = read_history(tmp_path / "run.db")
    first, second = history.rounds
    for name, values in both_losses(taken.actions).items():
        assert first.losses[name].mean == pytest.approx(values.mean())
        assert history.safe_losses[name].count == 100
        assert history.limits[name].alpha == ALPHA[name]
    assert (first.observed, first.pending) == (100, 0)
    assert set(second.losses) == {"harm"}
    assert (second.observed, second.pending) == (0, 50)


def test_a_run_moves_reopens_and_verifies(tmp_path):
    with open_run(tmp_path / "run.db", max_silence=1000) as run:
        filled(run)
        more = run.begin(tether.Gaussian(0.2)).act(50, np.random.default_rng(9))
        run.observe(more.ids[:30], {"harm": np.zeros(30)})
        run.observe(more.ids[10:], {"delay": np.ones(40)}, rewards=np.ones(40))
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "again.db", actor="Grace")
    before, after = (read_history(tmp_path / name) for name in ("run.db", "again.db"))
    assert (before.rounds, before.limits) == (after.rounds, after.limits)
    assert before.safe_losses == after.safe_losses
    for name in ("run.db", "again.db"):
        assert all(each.ok is not False for each in verify_store(tmp_path / name).findings)
    betas = []
    for name in ("run.db", "again.db"):
        with reopen(tmp_path / name) as again:
            again.observe(more.ids[30:], {"harm": np.zeros(20)})
            again.observe(more.ids[:10], {"delay": np.ones(10)})
            betas.append(again.begin(tether.Gaussian(0.3)).beta)
    assert betas[0] == betas[1] > 0


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


def test_the_sums_of_each_loss_are_verified(tmp_path):
    with open_run(tmp_path / "run.db") as run:
        filled(run, rows=60)
        with run._store._engine.begin() as connection:
            table = schema.kept
            for name, text in connection.execute(table.select()).fetchall():
                if name == "round 1":
                    content = json.loads(text)
                    content["losses"]["delay"]["observed"] += 1
                    changed = table.update().where(table.c.name == name)
                    connection.execute(changed.values(value=json.dumps(content)))
    found = " ".join(map(str, verify_store(tmp_path / "run.db").findings))
    assert "the sums of losses and rewards of round 1 do not follow" in found


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


def both_at_once(*calls):
    """Run calls in threads of their own, from one moment on; what they return or raise."""
    barrier = Barrier(len(calls))

    def one(call):
        barrier.wait(timeout=60)
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


def test_an_action_has_one_reward_whoever_reports_it(postgres_url):
    """Two processes report different losses of the same actions, each with a reward."""
    with open_run(postgres_url) as one, open_run(postgres_url) as other:
        ids = one.begin().act(6, np.random.default_rng(0)).ids
        for k in range(6):
            results = both_at_once(
                lambda k=k: one.observe(ids[k : k + 1], {"harm": [0.0]}, [1.0]),
                lambda k=k: other.observe(ids[k : k + 1], {"delay": [0.0]}, [2.0]),
            )
            assert sum(isinstance(each, ValueError) for each in results) == 1, results
        assert one.history().rounds[0].reward.count == 6


def test_the_same_losses_may_be_reported_at_once_in_any_order(postgres_url):
    with open_run(postgres_url) as one, open_run(postgres_url) as other:
        for _ in range(4):
            begun = one.begin()
            taken = begun.act(300, np.random.default_rng(0))
            losses = both_losses(taken.actions)
            turned = {name: values[::-1] for name, values in losses.items()}
            results = both_at_once(
                lambda: one.observe(taken.ids, losses),  # noqa: B023
                lambda: other.observe(taken.ids[::-1], turned),  # noqa: B023
            )
            assert results == [None, None]
        assert one.history().rounds[-1].observed == 300
