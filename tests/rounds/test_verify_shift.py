"""A forged state of the shift monitor is found, and none of those that a run has."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tether
from tether.rounds import Controller, verify_store


def problems(path):
    return [finding.text for finding in verify_store(path).problems]


def open_run(path):
    return Controller(
        tether.Gaussian(lambda x: x[:, 0], 1.0),
        alpha=0.3,
        store=path,
        context_score=lambda x: x[:, 0],
        missing="worst_case",
    )


def read_state(path):
    connection = sqlite3.connect(path)
    query = "SELECT value FROM tether_kept WHERE name = 'shift'"
    (text,) = connection.execute(query).fetchone()
    connection.close()
    return json.loads(text)


def write_state(path, state):
    connection = sqlite3.connect(path)
    if state is None:
        connection.execute("DELETE FROM tether_kept WHERE name = 'shift'")
    else:
        statement = "UPDATE tether_kept SET value = ? WHERE name = 'shift'"
        connection.execute(statement, [json.dumps(state)])
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("shift") / "run.db", np.random.default_rng(3)
    with open_run(path) as run:
        round_ = run.begin()
        for _ in range(7):
            round_.act(rng.normal(size=(100, 2)), rng)
    return path


def test_every_state_of_a_run_follows_from_its_contexts(tmp_path):
    path, rng = tmp_path / "run.db", np.random.default_rng(3)
    with open_run(path) as run:
        round_ = run.begin()
        for step in range(20):
            if step == 13:
                assert run.history().alarm.monitor == "shift"
                run.resume("a new clinic joined")
                assert problems(path) == []
            shift = 1.5 * (step > 7)
            round_.act(shift + rng.normal(size=(90, 2)), rng)
            assert problems(path) == []
    with Controller(  # nobody monitors the contexts
        tether.Gaussian(lambda x: x[:, 0], 1.0), alpha=0.3, store=path, missing="worst_case"
    ) as run:
        run.round.act(rng.normal(size=(10, 2)), rng)
    assert problems(path) == []


def changed(state, *path, by):
    """A copy of a state with one value changed."""
    copy = json.loads(json.dumps(state))
    *names, last = path
    inner = copy
    for name in names:
        inner = inner[name]
    inner[last] = by(inner[last]) if last in inner or isinstance(last, int) else by(None)
    return copy


FORGERIES = {
    "a later start": lambda state: changed(state, 0, "0", by=lambda _: 600),
    "more seen": lambda state: changed(state, 1, "0", by=lambda _: 701),
    "fewer seen": lambda state: changed(state, 1, "0", by=lambda _: 650),
    "another lane": lambda state: changed(state, 1, "7", by=lambda _: 5),
    "no monitor": lambda state: [*state[:2], None],
    "begun anew": lambda _: [{"0": 700}, {"0": 700}, None],
    "other random numbers": lambda state: changed(
        state, 2, "generator", "state", "state", by=lambda number: number + 1
    ),
    "another probability": lambda state: changed(
        state, 2, "e_process", "false_alarm_probability", by=lambda _: 1e-9
    ),
    "bets moved": lambda state: changed(
        state, 2, "e_process", "log_bets", by=lambda bets: bets[1:] + bets[:1]
    ),
    "a higher peak": lambda state: changed(
        state, 2, "e_process", "log_peak", by=lambda peak: float(peak) + 0.5
    ),
    "removed": lambda _: None,
    "nonsense": lambda _: [[[]]],
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_state_is_found(watched, tmp_path, name):
    path = tmp_path / "run.db"
    path.write_bytes(watched.read_bytes())
    assert problems(path) == []
    forged = FORGERIES[name](read_state(path))
    write_state(path, forged)
    assert problems(path), forged


def test_a_run_with_several_lanes_verifies(postgres_url):
    def act(seed):
        rng = np.random.default_rng(seed)
        for _ in range(6):
            run.round.act(rng.normal(size=(60, 2)), rng)

    with open_run(postgres_url) as run:
        run.begin()
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(act, range(4)))
        run.round.act(np.zeros((1, 2)), np.random.default_rng(9))  # the monitors catch up
    assert problems(postgres_url) == []
