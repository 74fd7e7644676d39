"""Several processes on one store: one begins a round, and none loses what another writes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.child_processes import KILLED
from tests.rounds.store_invariants import StoreAudit, check_numbers, check_whole, read_tables
from tests.rounds.worker_process import CONTEXTS, begin_and_act, named, open_run, read_journal
from tether.rounds import StoreError


@pytest.fixture
def begun(store_url):
    """A store with one round of the safe policy, all observed, so that there is a beta."""
    with open_run(store_url) as run:
        _, taken = begin_and_act(run, rows=60)
        run.observe(taken.ids, 0.01 + 0.13 * taken.actions)
    return store_url


def together(child_processes, folder, jobs):
    """Start the jobs, let all of them go at the same moment, wait; what they wrote down."""
    journal, gate = folder / "journal", folder / "gate"
    common = {"journal": str(journal), "gate": str(gate)}
    children = [child_processes.start(job, **given, **common) for job, given in jobs]
    child_processes.open(gate, journal, len(jobs))
    assert [child_processes.wait(child) for child in children] == [0] * len(jobs)
    return read_journal(journal)


def test_one_of_several_begins_a_round_and_the_others_go_on(begun, tmp_path, child_processes):
    jobs = [("begin", {"url": begun, "name": f"tilt {number}"}) for number in range(4)]
    lines = together(child_processes, tmp_path, jobs)
    won = [line for line in lines if line["what"] == "begun"]
    lost = [line for line in lines if line["what"] == "taken"]
    assert [line["round"] for line in won] == [2]
    assert len(lost) == 3
    for line in lost:
        assert "round 2 was begun by another process" in line["message"]
        assert "run.round" in line["message"]
    acts = [line for line in lines if line["what"] == "act"]
    assert [line["round"] for line in acts] == [2] * 4
    with open_run(begun) as run:
        tables = read_tables(run)
        check_whole(tables)  # with the scores of the policy that won, among others
        assert len(tables["tether_actions"]) == 60 + 4 * 20
        assert [row["policy"] for row in tables["tether_rounds"]] == [None, won[0]["name"]]
        assert run.round.beta == won[0]["beta"] > 0
        for part in tables["tether_columns"]:
            if (part["round"], part["name"]) == (2, "log_optimized_all"):
                values = np.frombuffer(part["values"]).reshape(part["count"], -1)
    expected = named(won[0]["name"]).log_prob_all(np.arange(CONTEXTS))
    assert all(np.isclose(expected, row).all(axis=1).any() for row in values)


def test_actions_and_losses_of_several_processes_are_all_kept(begun, tmp_path, child_processes):
    with open_run(begun) as run:
        run.begin(named("tilt 2"), name="tilt 2")
        audit = StoreAudit(begun, tmp_path / "journal", before=read_tables(run))
    jobs = [("act_and_observe", {"url": begun, "times": 12, "seed": seed}) for seed in range(4)]
    lines = together(child_processes, tmp_path, jobs)
    given = [number for line in lines if line["what"] == "act" for number in line["ids"]]
    check_numbers([*range(1, 61), *given])
    tables = audit.look()
    assert len(tables["tether_observations"]) == len(tables["tether_actions"]) == 60 + len(given)


def test_of_several_observations_of_one_action_one_is_kept(begun, tmp_path, child_processes):
    with open_run(begun) as run:
        rng = np.random.default_rng(0)
        run.begin().act(rng.integers(CONTEXTS, size=25), rng)
    jobs = [("observe_one_by_one", {"url": begun, "loss": loss}) for loss in (0.25, 0.5, 0.75)]
    lines = together(child_processes, tmp_path, jobs)
    kept = {line["ids"][0]: line["losses"][0] for line in lines if line["what"] == "observe"}
    accepted = [line for line in lines if line["what"] == "observe"]
    assert len(accepted) == len(kept) == 25
    refused = [line["message"] for line in lines if line["what"] == "refused"]
    assert len(refused) == 50
    assert all("withdrawn with another result (1 of 1)" in message for message in refused)
    with open_run(begun) as run:
        observations = {
            row["action"]: row["loss"] for row in read_tables(run)["tether_observations"]
        }
    assert {number: observations[number] for number in kept} == kept


def test_waiting_for_another_writer_ends_at_the_deadline(begun, tmp_path, child_processes):
    journal = tmp_path / "journal"
    child = child_processes.start("hold", url=begun, journal=str(journal), gate="")
    child_processes.await_ready(journal)
    with open_run(begun, deadline=1) as run:
        message = r"could not write .*(lock|no answer within the deadline).* Nothing was stored"
        with pytest.raises(StoreError, match=message):
            run.begin()
        assert run.round.number == 1
    assert child_processes.wait(child, kill_after=0) == KILLED
    with open_run(begun, deadline=60) as run:  # the server may take a while to notice
        assert run.begin().number == 2
