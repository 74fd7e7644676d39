"""Whether a store can be trusted: its chain, what follows from its rows, and who signed it."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from tests.rounds.worlds import World, one_round
from tether._core.signing import generate_keys
from tether.rounds import (
    Controller,
    export_run,
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


def test_every_record_is_signed_by_a_controller_with_a_key(tmp_path, keys):
    path = some_rounds(tmp_path / "run.db", key=keys["ours"])
    assert problems(path) == []
    assert problems(path, keys["ours.pub"]) == []
    assert any("is not the key's" in text for text in problems(path, keys["theirs.pub"]))
    forge(path, "UPDATE tether_entries SET signature = NULL")
    assert problems(path, keys["ours.pub"]) == ["the store is not signed"]


def test_exports_are_signed_and_verified(tmp_path, keys):
    from tether.rounds.store.chain_signer import chain_signer

    path = some_rounds(tmp_path / "run.db", key=keys["ours"])
    export_run(path, tmp_path / "run.parquet", sign=chain_signer(keys["ours"]))
    assert verify_export(tmp_path / "run.parquet").ok
    assert verify_export(tmp_path / "run.parquet", key=keys["ours.pub"]).ok
    assert not verify_export(tmp_path / "run.parquet", key=keys["theirs.pub"]).ok
    export_run(path, tmp_path / "unsigned.parquet")
    assert not verify_export(tmp_path / "unsigned.parquet", key=keys["ours.pub"]).ok
