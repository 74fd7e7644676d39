"""What goes wrong around a controller: outages, kills, forgers, several processes."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest

import tether
from tests.runs import jobs
from tests.runs.test_forged_stores import RESUME, add, rewrite
from tests.runs.worlds import WORLDS, play, started
from tests.scale import scaled
from tether.runs import Controller, Run, import_run, open_log
from tether.runs.body import pack, unpack
from tether.runs.errors import StoreError, TamperedError

WORLD = WORLDS["nothing"]


def make(store, **settings):
    return Controller(WORLD.safe, store, alpha=WORLD.alpha, **settings)


# ---- outage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fallback", [None, "safe", "file"])
def test_the_safe_policy_acts_while_the_store_is_locked(tmp_path, fallback):
    """Without a fallback it is an error, and leaves no row."""
    store, keys = tmp_path / "run.db", [f"k{k}" for k in range(20)]
    in_file = fallback == "file"
    fallback = tmp_path / "outbox.db" if in_file else fallback
    run, round_, rng = started(store, deadline=0.3, fallback=fallback)
    assert round_.beta > 0
    locked = sqlite3.connect(store, isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    if fallback is None:
        with pytest.raises(StoreError):
            round_.act(20, rng, keys=keys)
    else:
        taken = round_.act(20, rng, keys=keys)
        assert not taken.stored
        assert set(taken.served) == {0}
        assert run.observe(taken, WORLD.loss(taken.actions, rng)) == 0
    locked.execute("ROLLBACK")
    locked.close()
    if in_file:  # whatever happens to the process
        run.close()
        run = make(store, deadline=5.0, fallback=fallback)
    assert run.history().units[1].rows["old"] == (20 if fallback else 0)
    again = run.round.act(20, rng, keys=keys)
    assert fallback is None or again.actions.tolist() == taken.actions.tolist()
    assert len(run.pending()) == (0 if fallback else 20)
    assert sum(run.history().units[1].rows.values()) == 20
    if fallback is not None:  # an action has an id of the outbox and one of its row
        with pytest.raises(ValueError, match="each action once"):
            run.observe([taken.ids[0], again.ids[0]], [1.0, 0.0])
    assert run.verify() == []
    run.close()


# ---- kills --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_that_was_confirmed_is_lost_in_kills(store_url, tmp_path):
    kills, journal, rng = scaled(6, 30), tmp_path / "journal", np.random.default_rng(2)
    for life in range(kills):
        jobs.kill(rng, jobs.act, store_url, journal, f"life{life}", 6)
    with make(store_url, missing="worst_case") as run:
        assert run.verify() == []
        units, known = run.history().units, run._refresh()
        for kind, what in (noted := jobs.noted(journal)):
            if kind == "begun":
                assert units[what[0] - 1].level == what[1]
            else:
                assert max(what) < known.rows.size
                assert kind == "acted" or known.observed[what].all()
        assert len(noted) >= kills
        run.begin(tether.Gaussian(0.2))


# ---- forgers ------------------------------------------------------------------------------------


def forger(kind, edit, holds=lambda header: True):
    """A change of all events of a kind whose header is as it should be."""

    def forge(events):
        for event in events:
            header, columns = unpack(event["body"])
            if event["kind"] == kind and holds(header):
                edit(header, columns)
                event["body"] = pack(header, **columns)

    return forge


def is_decided(header):
    return "looked" in header["decision"]


def is_last(header):
    """The last round: no later beta rests on it."""
    return header["policy"] == "policy 3"


def other_psi(given):
    return forger("round", lambda h, c: h["decision"].update(log_psi=given), is_last)


FORGERIES = {
    "scored": forger("round", lambda h, c: h["decision"].update(scored=[]), is_decided),
    "beta": forger("round", lambda h, c: h.update(level=h["level"] + 1.0), is_decided),
    "loss": forger("losses", lambda h, c: c.update({"loss/loss": 0 * c["loss/loss"]})),
    "scores": forger("scores", lambda h, c: c.update(values=c["values"] - 1.0)),
    "draws": forger("draws", lambda h, c: c.update(log_optimized=c["log_optimized"] - 0.5)),
    "promise": forger("round", lambda h, c: h["decision"]["promises"].update(loss=0), is_decided),
    "looks": forger("round", lambda h, c: h["decision"].update(looks=7), is_decided),
    "policy": forger("round", lambda h, c: h["decision"].update(looked="another"), is_decided),
    "seen": forger("round", lambda h, c: h.update(seen=2), is_decided),
    "rows": forger("rows", lambda h, c: c.update(arm=c["arm"] + 1), lambda h: h["first"] == 0),
    "psi": forger("round", lambda h, c: h["decision"]["log_psi"].__setitem__(0, 2.0), is_last),
    **{f"psi of an error of {e:g}": other_psi([3.0, e]) for e in (-1e9, math.nan, math.inf)},
    "psi that is no number": other_psi([math.nan, 0.01]),
    "no psi": other_psi(None),
    "calibration": forger("round", lambda h, c: h["calibration"].update(log_beta=1.0), is_last),
    "first": forger("rows", lambda h, c: h.update(first=h["first"] + 1)),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_with_a_new_chain_is_named(tmp_path, forgery):
    store = tmp_path / "run.db"
    with make(store) as run:
        play(run, WORLD, np.random.default_rng(3))
        assert run.verify() == []
    rewrite(store, lambda events: None)
    with Run.open(store) as run:
        assert run.verify() == []
    rewrite(store, FORGERIES[forgery])
    with Run.open(store) as run:
        found = run.verify()
    assert found
    if forgery in ("beta", "psi"):
        assert {"beta": "log beta of round", "psi": "normalizing"}[forgery] in found[0]


@pytest.mark.parametrize(("alpha", "beta"), [(0.9, math.inf), (0.0001, 0.0)])
def test_no_number_is_near_an_infinite_beta(tmp_path, alpha, beta):
    run, round_, _ = started(tmp_path / "run.db", alpha=alpha)
    assert round_.beta == beta
    run.close()
    rewrite(tmp_path / "run.db", forger("round", lambda h, c: h.update(level=0.0), is_decided))
    with Run.open(tmp_path / "run.db") as other:
        assert "log beta of round 2" in other.verify()[0]


def test_a_forged_row_is_not_obeyed(tmp_path):
    """Without a new chain every edit is noticed, and only the safe policy acts from then on."""
    run, round_, rng = started(tmp_path / "run.db")
    assert set(round_.act(5, rng).served) == {2}
    run.halt("a complaint")
    rewrite(tmp_path / "run.db", lambda events: add(events, "act", RESUME), chained=False)
    taken = round_.act(5, rng)
    assert set(taken.served) == {0}
    assert not taken.stored
    with pytest.raises(TamperedError):
        run.begin(WORLD.news[1])
    run.close()
    with Run.open(tmp_path / "run.db") as other:
        assert other.verify()


def test_a_policy_in_the_store_that_was_changed_is_refused(tmp_path):
    run, _, _ = started(tmp_path / "run.db")
    run.close()
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute("UPDATE tether_blobs SET content = x'0000'")
    with make(tmp_path / "run.db") as run:
        assert "stored bytes" in run.verify()[0]
        with pytest.raises(TamperedError, match="stored policy"):
            _ = run.round
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute("DELETE FROM tether_blobs")
    with Run.open(tmp_path / "run.db") as other:
        assert other.verify() == ["1 of the stored policies are gone"]


def test_an_exported_run_goes_on_elsewhere(tmp_path):
    run, round_, rng = started(tmp_path / "run.db")
    round_.act(3, rng, keys=["a", "b", "c"])
    run.export(tmp_path / "export")
    run.close()
    import_run(tmp_path / "export", tmp_path / "copy.db")
    with make(tmp_path / "copy.db") as copy:
        assert copy.verify() == []
        assert copy.round.beta == round_.beta
        assert copy.round.act(3, rng, keys=["a", "b", "c"]).ids.tolist() == [600, 601, 602]


# ---- calibrated elsewhere -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nothing", "arrays", "shortlists"])
def test_a_calibration_of_the_exported_log_is_accepted(tmp_path, name):
    world = WORLDS[name]
    found = {}
    for way in ("here", "elsewhere"):
        rng = np.random.default_rng(4)
        with Controller(world.safe, "sqlite://", alpha=0.7 * world.alpha) as run:
            for policy in (None, world.news[0]):
                taken = run.begin(policy).act(world.contexts(rng, 300), rng)
                run.observe(taken, world.loss(taken.actions, rng))
            if way == "here":
                found[way] = run.begin(world.news[1])
                continue
            folder = run.export_log(tmp_path / name, world.news[1])
            log, proposals, arguments = open_log(folder)
            calibration = tether.calibrate(log, proposals, **arguments)
            more = run.round.act(world.contexts(rng, 50), rng)  # traffic goes on meanwhile
            run.observe(more, np.zeros(50))
            with pytest.raises(ValueError, match="digest"):
                run.begin(world.news[0], calibration=calibration)
            other = tether.calibrate(log, proposals, **{**arguments, "alpha": {"loss": 0.4}})
            with pytest.raises(ValueError, match="another alpha"):
                run.begin(world.news[1], calibration=other)
            found[way] = run.begin(world.news[1], calibration=calibration)
            assert found[way].decision["looks"] == 1
            assert run.verify() == []
    assert found["here"].beta == found["elsewhere"].beta


def test_exports_count_as_looks(tmp_path):
    run, _, _ = started("sqlite://")
    for place in range(3):
        run.export_log(tmp_path / str(place), tether.Gaussian(0.6 + place / 10))
    assert run.begin(tether.Gaussian(0.2)).decision["looks"] == 5


# ---- validity over rounds -----------------------------------------------------------------------


def deployed_risk(rule, seeds=24, rows=200):
    """The mean risk of what the last round serves, over runs, and its standard error.

    The rounds before serve a policy that hardly ever does harm and is likely where the last one is.
    """
    policies = [None, tether.Gaussian(0.9, 0.25), tether.Gaussian(1.25, 0.8)]
    risks = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        with Controller(tether.Gaussian(0.0), "sqlite://", **rule, seed=seed, stop=None) as run:
            for policy in policies:
                round_ = run.begin(policy)
                taken = round_.act(rows, rng)
                run.observe(taken, taken.actions > 1.5)
            drawn = round_.policy.sample(4000, rng)
            risks.append(float((drawn > 1.5).mean()))
    return np.mean(risks), np.std(risks) / np.sqrt(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [{"alpha": 0.15}, {"promise": 0.15}])
def test_the_risk_after_rounds_is_within_what_is_promised(rule):
    risk, error = deployed_risk(rule)
    assert risk - 3 * error <= 0.15


@pytest.mark.slow
def test_without_the_mixture_the_promise_breaks(monkeypatch):
    """The wrong procedure: rows of past rounds are weighted as if the safe policy had acted."""
    from tether.runs import decide_beta

    monkeypatch.setattr(
        decide_beta, "_mixture", lambda densities, counts: densities[decide_beta.SAFE].log
    )
    risk, error = deployed_risk({"alpha": 0.15})
    assert risk - 3 * error > 0.15
