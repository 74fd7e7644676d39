"""`verify` computes predictions again, and names one that was forged."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.rounds.aims.aimed_runs import begun, last_aim, new_run
from tests.rounds.forged_stores import link_again
from tether.rounds import verify_store


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "run.db"
    with new_run(path, alpha=0.15) as run:
        begun(run, 3, rows=100)
    return path


@pytest.fixture(scope="module")
def aimed_store(tmp_path_factory):
    """A run whose second round is tilted."""
    path = tmp_path_factory.mktemp("aimed") / "run.db"
    with new_run(path) as run:
        begun(run, 2, rows=100)
        assert last_aim(run).candidate == "aimed × 1"
    return path


def forge(store, number, change):
    """Change how a round says that it aimed, and link the hash chain again."""
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT aim FROM tether_rounds WHERE number = ?"
        aim = json.loads(connection.execute(query, [number]).fetchone()[0])
        change(aim)
        statement = "UPDATE tether_rounds SET aim = ? WHERE number = ?"
        connection.execute(statement, [json.dumps(aim), number])
        connection.commit()
    link_again(store)


def failures(store):
    return [each.text for each in verify_store(store).findings if each.ok is False]


def test_an_honest_run_is_accepted(store):
    found = verify_store(store)
    assert found.ok
    assert "predictions: those of 2 rounds follow from their loss models" in str(found)


@pytest.mark.parametrize("name", ["predicted", "before", "aimed"])
def test_a_forged_prediction_is_named(store, name):
    def change(aim):
        aim[name]["loss"] *= 0.9

    forge(store, 3, change)
    (text,) = failures(store)
    assert text.startswith("round 3: the stored loss model predicts loss = ")
    assert f"({name})" in text


def test_a_run_that_does_not_aim_has_no_aims(tmp_path):
    path = tmp_path / "run.db"
    with new_run(path, aim=False) as run:
        begun(run, 2, rows=20)
    assert "predictions" not in str(verify_store(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE tether_rounds SET aim = '{}' WHERE number = 2")
        connection.commit()
    link_again(path)
    assert failures(path) == ["round 2: the run does not aim"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"candidate": "plain"}, "its candidate is 'plain', but another policy is stored"),
        ({"multipliers": {"loss": 0.5}}, "its multipliers {'loss': 0.5} are not those"),
        ({"models": {"loss": "trees"}}, "its loss models {'loss': 'trees'} are not those"),
        ({"seen": {"0": 10**6}}, "its predictions are not of the rows"),
        ({"models": {}}, "it has predictions without a loss model"),
        ({"rows": "many"}, "rows must be an integer of at least 0, got 'many'"),
        ({"predicted": {"loss": "much"}}, "must be a number, got 'much'"),
        ({"aimed": {"loss": "inf"}}, "must be finite, got inf"),
        ({"multipliers": [1]}, "multipliers must have the entries"),
        ({"plain_log_beta": []}, "plain_log_beta must be a number, got []"),
        ({"seen": {"0": -1}}, "must be an integer of at least 0, got -1"),
    ],
)
def test_what_is_stored_of_the_policy_says_otherwise(aimed_store, tmp_path, changed, text):
    copy = tmp_path / "forged.db"
    copy.write_bytes(aimed_store.read_bytes())
    forge(copy, 2, lambda aim: aim.update(changed))
    (found,) = failures(copy)
    assert found.startswith("round 2: ")
    assert text in found


def test_other_forgeries_of_an_aim(store):
    forge(store, 2, lambda aim: aim.update(seen={}))
    assert failures(store) == [
        "round 2: its predictions are not of the rows that the round had seen"
    ]
    forge(store, 2, lambda aim: aim.update(digest="0" * 64))
    assert "was changed or removed" in failures(store)[0]
    forge(store, 2, lambda aim: aim.pop("why"))
    assert failures(store)
