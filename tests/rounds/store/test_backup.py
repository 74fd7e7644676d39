"""A copy of a store that is being written is a store, with the beginning of the run."""

import sqlite3
import subprocess
import sys
import time

import pytest

from tests.rounds.store.exported_runs import all_tables
from tests.scale import scaled
from tether.rounds import backup_run, read_history
from tether.rounds.store.database import Store
from tether.rounds.store.verify_run import find_tampering

ACTING = """
import sys
import numpy as np
import tether
rng = np.random.default_rng(int(sys.argv[2]))
with tether.Controller(tether.Gaussian(0.0), alpha=0.3, store=sys.argv[1]) as run:
    round_ = run.round or run.begin()
    print("ready", flush=True)
    while True:
        taken = round_.act(5, rng)
        run.observe(taken.ids, np.zeros(5))
"""


def findings(store):
    opened = Store(store, create=False)
    with opened.reading() as connection:
        found = list(find_tampering(connection))
    opened.close()
    return found


@pytest.mark.slow
def test_a_backup_made_while_processes_act_holds_the_beginning_of_the_run(tmp_path):
    store = tmp_path / "run.db"
    workers = []
    try:
        for seed in ("1", "2"):
            command = [sys.executable, "-c", ACTING, str(store), seed]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            workers.append(worker)
            assert worker.stdout.readline() == "ready\n"
        copies = []
        for number in range(scaled(4)):
            copies.append(tmp_path / f"copy {number}.db")
            backup_run(store, copies[-1])
            seen = len(all_tables(copies[-1])["tether_observations"])
            deadline = time.monotonic() + 60
            while len(all_tables(store)["tether_observations"]) == seen:  # they do go on
                assert time.monotonic() < deadline
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    final = all_tables(store)
    sizes = []
    for copy in copies:
        assert findings(copy) == []
        assert sqlite3.connect(copy).execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = all_tables(copy)
        for name in ("tether_actions", "tether_observations", "tether_entries", "tether_rounds"):
            assert set(tables[name]) <= set(final[name])
        numbers = [row[0] for row in tables["tether_actions"]]
        assert numbers == list(range(1, len(numbers) + 1))
        sizes.append(len(numbers))
        assert read_history(copy).rounds[0].rows == len(numbers)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
