"""Whether a store can be trusted: its chain, what follows from its rows, and who signed it."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

import tether
from tests.rounds.worlds import World, one_round
from tether._core.signing import generate_keys
from tether.rounds import (
    Controller,
    StoreError,
    TamperedError,
    export_run,
    sign_store,
    verify_export,
    verify_store,
)


@pytest.fixture
def keys(tmp_path):
    """Two pairs of keys: ours, and somebody else's."""
    for name in ("ours", "theirs"):
        generate_keys(tmp_path / name)
    return {
        name: tmp_path / f"{name}.{kind}" for name, kind in [("ours", "key"), ("theirs", "key")]
    } | {f"{name}.pub": tmp_path / f"{name}.pub" for name in ("ours", "theirs")}


def some_rounds(path, **options):
    world, rng = World("marginal"), np.random.default_rng(0)
    with Controller(world.safe(), alpha=0.3, alarm_risk=0.5, store=path, **options) as run:
        for number in (1, 2, 3):
            one_round(run, world, number, 60, rng)
    return path


def problems(path, key=None):
    return [finding.text for finding in verify_store(path, key=key).problems]


def forge(path, statement, *parameters):
    connection = sqlite3.connect(path)
    assert connection.execute(statement, parameters).rowcount
    connection.commit()
    connection.close()


def test_a_good_store(tmp_path):
    found = verify_store(some_rounds(tmp_path / "run.db"))
    assert found.ok, str(found)
    names = [finding.name for finding in found.findings]
    assert names == ["hash chain", "calibrations", "monitors", "signature"]
    assert found.findings[-1].ok is None


@pytest.mark.parametrize("name", ["round 2", "round 3", "safe"])
@pytest.mark.parametrize("part", ["observed", "mean", "reward", "risk", "withdrawn"])
def test_the_state_of_the_monitors_is_computed_again(tmp_path, name, part):
    path = some_rounds(tmp_path / "run.db")
    connection = sqlite3.connect(path)
    query = "SELECT value FROM tether_kept WHERE name = ?"
    kept = json.loads(connection.execute(query, [name]).fetchone()[0])
    connection.close()
    of_loss = kept["losses"]["loss"]
    if part == "risk" and of_loss["risk"] is None:
        pytest.skip("the safe policy has no risk monitor")
    if part == "observed":
        of_loss["observed"] += 1
    elif part == "withdrawn":
        kept["withdrawn"] += 1
    elif part == "reward":
        kept["reward"]["mean"] += 0.5
    else:
        of_loss[part] = None
    forge(path, "UPDATE tether_kept SET value = ? WHERE name = ?", json.dumps(kept), name)
    assert problems(path)


def test_monitors_agree_after_alarms_and_restarts(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(0)
    options = {"alpha": 0.3, "alarm_risk": 0.35, "store": tmp_path / "run.db"}
    with Controller(world.safe(), false_alarm_probability=0.5, **options) as run:
        one_round(run, world, 1, 100, rng)
        round_ = run.begin(world.optimized(2))
        for loss in (0.1, 1.0, 0.2, 1.0):
            taken = round_.act(40, rng)
            run.observe(taken.ids, np.full(40, loss))
            assert problems(tmp_path / "run.db") == []
            if run.history().alarm is not None:
                run.resume("a drill")
                assert problems(tmp_path / "run.db") == []
        assert len(run.history().alarms) >= 2
        run.halt("the end")
        taken = round_.act(10, rng)
        run.observe(taken.ids, np.ones(10))
        assert problems(tmp_path / "run.db") == []


def test_every_record_is_signed_by_a_controller_with_a_key(tmp_path, keys):
    path = some_rounds(tmp_path / "run.db", key=keys["ours"])
    assert problems(path) == []
    assert problems(path, keys["ours.pub"]) == []
    assert any("is not the key's" in text for text in problems(path, keys["theirs.pub"]))
    forge(path, "UPDATE tether_entries SET signature = NULL")
    assert problems(path, keys["ours.pub"]) == ["the store is not signed"]


def test_a_store_that_was_computed_anew_lacks_the_signature(tmp_path, keys):
    """A forger who knows everything but the key."""
    path = some_rounds(tmp_path / "run.db")
    assert problems(path, keys["ours.pub"]) == ["the store is not signed"]
    sign_store(path, keys["theirs"], actor="Mallory")
    assert any("is not the key's" in text for text in problems(path, keys["ours.pub"]))


def test_what_was_written_after_the_signature_is_counted(tmp_path, keys):
    path = some_rounds(tmp_path / "run.db")
    sign_store(path, keys["ours"], actor="Ada")
    world, rng = World("marginal"), np.random.default_rng(1)
    with Controller(world.safe(), alpha=0.3, alarm_risk=0.5, store=path) as run:
        assert run.history().audit[-1].act == "sign"
        run.round.act(7, rng)
        run.halt("a drill")
    found = verify_store(path, key=keys["ours.pub"])
    assert found.ok
    assert "2 records, 7 actions and 0 losses were written after it" in str(found)


def test_exports_are_signed_and_verified(tmp_path, keys):
    from tether.rounds.store.chain_signer import chain_signer

    path = some_rounds(tmp_path / "run.db", key=keys["ours"])
    export_run(path, tmp_path / "run.parquet", sign=chain_signer(keys["ours"]))
    assert verify_export(tmp_path / "run.parquet").ok
    assert verify_export(tmp_path / "run.parquet", key=keys["ours.pub"]).ok
    assert not verify_export(tmp_path / "run.parquet", key=keys["theirs.pub"]).ok
    export_run(path, tmp_path / "unsigned.parquet")
    assert not verify_export(tmp_path / "unsigned.parquet", key=keys["ours.pub"]).ok


def test_there_must_be_a_run(tmp_path, keys):
    with pytest.raises(StoreError, match="there is no store"):
        verify_store(tmp_path / "absent.db")
    with pytest.raises(StoreError, match="there is no store"):
        sign_store(tmp_path / "absent.db", keys["ours"])
    with pytest.raises((ValueError, OSError)):
        Controller(
            tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "a.db", key=tmp_path / "no.key"
        )


def test_late_losses_of_several_rounds_verify(tmp_path):
    rng = np.random.default_rng(0)
    with Controller(tether.Gaussian(0.0), alpha=0.3, store=tmp_path / "run.db") as run:
        first, second = (run.begin().act(40, rng).ids for _ in range(2))
        for ids in (first[:20], second[:20], first[20:], second[20:]):
            run.observe(ids, rng.integers(0, 2, 20).astype(float))
        mixed = rng.permutation(np.concatenate([run.begin().act(9, rng).ids for _ in range(2)]))
        run.observe(mixed, rng.random(18))
    assert problems(tmp_path / "run.db") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seen", '{"0": 1000000}'),
        ("seen", "{}"),
        ("seen", "nonsense"),
        ("silence", "[1000000, 0]"),
        ("silence", '[["loss", NaN, "2026-01-01T00:00:00+00:00"]]'),
        ("silence", "[]"),
        ("safe", "[[[]]]"),
    ],
)
def test_a_forged_state_of_the_monitors_is_found(tmp_path, name, value):
    path = some_rounds(tmp_path / "run.db")
    forge(path, "UPDATE tether_kept SET value = ? WHERE name = ?", value, name)
    assert problems(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tether_lanes SET head = 5",
        "UPDATE tether_lanes SET head = 4611686018427387904",
        "UPDATE tether_lanes SET last_entry = 'x'",
        "UPDATE tether_entries SET head = 'text' WHERE number = 2",
        "UPDATE tether_entries SET digest = 7 WHERE number = 2",
        "UPDATE tether_entries SET kind = 'zzz' WHERE lane = -1 AND number = 3",
        "UPDATE tether_entries SET heads = NULL WHERE lane = -1",
        "UPDATE tether_entries SET note = x'ff' WHERE lane = -1",
        "UPDATE tether_actions SET action = 5 WHERE id = 3",
        "UPDATE tether_rounds SET calibration = '[[' WHERE number = 3",
    ],
)
def test_what_tether_cannot_have_written_is_named(tmp_path, statement):
    path = some_rounds(tmp_path / "run.db")
    forge(path, statement)
    assert problems(path)
    with pytest.raises(TamperedError):
        Controller(World("marginal").safe(), alpha=0.3, alarm_risk=0.5, store=path)
