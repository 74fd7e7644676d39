"""Stores that somebody changed, in any value or row: `verify` names every one of them."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tether
from tests.rounds import forged_stores
from tests.rounds.forged_stores import Forgery
from tests.scale import SCALE
from tether._core.signing import generate_keys
from tether.rounds import Controller, StoreError, verify_store
from tether.rounds.store import checkpoints

FEW = 25
"""How many forgeries of each kind `make test` tries; `make endurance` tries all."""
KEPT_ASIDE = ("tether_lanes", "tether_entries", "tether_kept")
"""What is not in the hash chain, but is computed from what is."""


@dataclass(frozen=True)
class Original:
    """A signed store with tables that have no constraints, and where its keys are."""

    path: Path
    key: Path

    def copy(self, folder):
        return Path(shutil.copy(self.path, folder / "forged.db"))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged")
    generate_keys(folder / "ops")
    forged_stores.make_store(folder / "run.db", folder / "ops.key")
    forged_stores.without_constraints(folder / "run.db")
    return Original(folder / "run.db", folder / "ops.pub")


def chosen(all_of_them):
    """All, or a few of them from everywhere; the same every time."""
    found = list(all_of_them)
    return found if SCALE > 1 else random.Random(5).sample(found, FEW)


def problems(path, key=None):
    """What is wrong with a store; that it cannot be read at all is named too."""
    try:
        return [finding.text for finding in verify_store(path, key=key).problems]
    except StoreError as error:
        return [str(error)]


def test_there_are_more_than_a_thousand_and_the_original_is_good(original):
    found = list(forged_stores.forgeries(original.path))
    assert len(found) > 1_000
    columns = {(each.table, each.column) for each in found if each.kind == "change"}
    for table in forged_stores.TABLES:
        assert sum(name == table for name, _ in columns) >= 2
    assert problems(original.path, original.key) == []


@pytest.mark.slow
def test_every_changed_value_and_row_is_named(original, tmp_path):
    tried = 0
    for forgery in chosen(forged_stores.forgeries(original.path)):
        if forgery.column == "signature" and forgery.value is None and forgery.kind == "change":
            continue  # a later signature covers the entry; of the last one there is a test below
        path = original.copy(tmp_path)
        if not forgery.apply(path):
            continue  # the same value as before
        tried += 1
        key = original.key if forgery.column == "signature" else None
        assert problems(path, key), str(forgery)
    assert tried > 0.7 * FEW


@pytest.mark.slow
def test_a_forger_who_computes_the_chain_anew_lacks_the_key(original, tmp_path):
    given = forged_stores.forgeries(original.path, seed=1)
    tried = 0
    for forgery in chosen(each for each in given if each.table not in KEPT_ASIDE):
        path = original.copy(tmp_path)
        if not forgery.apply(path):
            continue
        try:
            forged_stores.link_again(path)
        except (TypeError, ValueError):
            continue  # no digest of this can be computed
        tried += 1
        assert problems(path, original.key), str(forgery)
    assert tried > 0.7 * FEW


@pytest.fixture
def just_begun(tmp_path, monkeypatch):
    """A signed store in which the last thing that happened is the beginning of a round."""
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 100)
    generate_keys(tmp_path / "ops")
    rng, path = np.random.default_rng(0), tmp_path / "run.db"
    options = {"alpha": 0.3, "store": path, "key": tmp_path / "ops.key"}
    with Controller(tether.Gaussian(0.0), **options) as run:
        for number in range(3):
            round_ = run.begin(tether.Gaussian(0.2 * number) if number else None)
            if number < 2:
                taken = round_.act(60, rng)
                run.observe(taken.ids, (taken.actions > 1.5).astype(float))
    assert problems(path, tmp_path / "ops.pub") == []
    return Original(path, tmp_path / "ops.pub")


@pytest.mark.parametrize(
    ("table", "column"), [("tether_columns", "values"), ("tether_checkpoints", "content")]
)
def test_the_signature_of_a_round_covers_what_was_written_with_it(
    just_begun, table, column, monkeypatch
):
    """Otherwise the scores and checkpoints of the last round could be changed."""
    with closing(sqlite3.connect(just_begun.path)) as connection:
        number = connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0]
        query = f'SELECT "{column}" FROM {table} WHERE rowid = ?'
        value = connection.execute(query, [number]).fetchone()[0]
    changed = value[:-1] + bytes([value[-1] ^ 1])
    assert Forgery(table, "change", number, column, value=changed).apply(just_begun.path)
    forged_stores.link_again(just_begun.path)
    unchecked = "tether.rounds.store_verification.find_wrong_checkpoints"
    monkeypatch.setattr(unchecked, lambda _: [])
    assert any("not the key's" in text for text in problems(just_begun.path, just_begun.key))
