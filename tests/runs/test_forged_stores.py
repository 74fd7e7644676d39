"""Stores that were changed behind the back of tether: never obeyed, and every change is named."""

from __future__ import annotations

import shutil
import sqlite3
import time

import numpy as np
import pytest

from tests.scale import scaled
from tether._core.signing import generate_keys
from tether.runs import Release, Run, import_run, relative
from tether.runs.body import pack, unpack
from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import NO_HEAD, link

FIELDS = ("seq", "kind", "at", "mark", "body", "head", "signature")


def fill(store, **more):
    """A halted release with steps, losses, an alarm that was cleared, and a tightening."""
    rng = np.random.default_rng(1)
    guardrails = {"error": 0.2, "delay": relative(0.05)}
    with Release(store, guardrails, old={"error": 0.02}, step=100, **more) as release:
        for call in range(12):
            keys = [f"u{k}" for k in rng.integers(0, 400, 50)]
            systems = release.assign(keys)
            losses = {name: (rng.random(50) < 0.05).astype(float) for name in guardrails}
            release.observe(keys, losses, system=systems, keep_first=True)
            if call == 4:
                release.halt("a look", actor="ann")
                release.resume("all is well", actor="ann")
            if call == 8:
                release.tighten("to be sure", actor="ann", error=0.15)
        release.halt("the new system must not serve", actor="ann")


@pytest.fixture(scope="module")
def halted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halted")
    with pytest.MonkeyPatch.context() as patch:  # another salt, and growth may not be limited
        patch.setattr("secrets.token_bytes", lambda size: bytes(size))
        fill(folder / "plain.db")
        generate_keys(folder / "key")
        fill(folder / "signed.db", key=folder / "key.key")
    return folder


def copy(halted, name, tmp_path):
    target = tmp_path / "run.db"
    shutil.copy(halted / name, target)
    return target


def read(database):
    rows = database.execute(f"SELECT {', '.join(FIELDS)} FROM tether_events ORDER BY seq")
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def write(database, events, *, chained):
    """Replace all events; with a new chain if the forger knows how to make one."""
    head = NO_HEAD
    database.execute("DELETE FROM tether_events")
    for event in events:
        if chained:
            fields = (event[name] for name in FIELDS[:5])
            event["head"] = head = link(head, *fields)
        values = tuple(event[name] for name in FIELDS)
        database.execute(f"INSERT INTO tether_events VALUES ({', '.join('?' * 7)})", values)
    database.commit()


def rewrite(store, edit, *, chained=True):
    """Change events of a store behind its back."""
    with sqlite3.connect(store) as database:
        events = read(database)
        edit(events)
        write(database, events, chained=chained)
    database.close()


def forged(halted, name, tmp_path, edit, *, chained):
    """A copy of a store in which some events were changed."""
    store = copy(halted, f"{name}.db", tmp_path)
    rewrite(store, edit, chained=chained)
    return store


def last(events, kind, **wanted):
    """The last event of a kind whose header has these entries."""
    for event in reversed(events):
        header = unpack(event["body"])[0] if event["kind"] == kind else {}
        if event["kind"] == kind and wanted.items() <= header.items():
            return event
    raise LookupError(kind)


def change(events, kind, edit, **wanted):
    event = last(events, kind, **wanted)
    header, columns = unpack(event["body"])
    columns = {name: np.array(column) for name, column in columns.items()}
    edit(header, columns)
    event["body"] = pack(header, **columns)


def drop(events, kind, **wanted):
    events.remove(last(events, kind, **wanted))
    for number, event in enumerate(events, 1):
        event["seq"] = number


def add(events, kind, body):
    tail = events[-1]
    events.append({**tail, "seq": tail["seq"] + 1, "kind": kind, "body": body})


def update(kind, *path, wanted=(), **values):
    """A forgery: other values in the header of the last event of a kind."""

    def edit(header, columns):
        for name in path:
            header = header[name]
        header.update(
            {name: new(header[name]) if callable(new) else new for name, new in values.items()}
        )

    return lambda events: change(events, kind, edit, **dict(wanted))


def flipped(kind, name, value=None):
    def edit(header, columns):
        columns[name][0] = 1 - int(columns[name][0]) if value is None else value

    return lambda events: change(events, kind, edit)


FORGED = {"subject": "odd", "reason": "forged", "actor": "eve"}
RESUME = pack({"act": "resume", **FORGED})
TIGHTEN = {"act": "tighten"}
EDITS = {
    "a larger share": update("round", level=0.9),
    "a finished ramp": update("round", "decision", finished=lambda finished: not finished),
    "another promise": update("round", "decision", "promises", error=0.01),
    "a loss": flipped("losses", "loss/error", 0.5),
    "a loss outside": flipped("losses", "loss/error", 7.0),
    "a loss of another row": flipped("losses", "row", 3),
    "a loss of no row": flipped("losses", "row", 10**6),
    "another system": flipped("rows", "arm"),
    "another position": flipped("rows", "position", 17),
    "a row that does not count": flipped("rows", "calibration"),
    "a key that was known": flipped("rows", "known", 3),
    "an earlier row": flipped("rows", "before", 0),
    "another key": flipped("rows", "key", b"x"),
    "an outage": update("rows", outage=True),
    "a step without rows": lambda e: drop(e, "rows"),
    "no losses": lambda e: drop(e, "losses"),
    "no step": lambda e: drop(e, "round"),
    "no halt": lambda e: drop(e, "act", act="halt"),
    "no alarm": lambda e: drop(e, "alarm", message="a look"),
    "no tightening": lambda e: drop(e, "act", **TIGHTEN),
    "another tightening": update("act", "changes", wanted=TIGHTEN, error=0.01),
    "another alarm": update("alarm", monitor="stop"),
    "an alarm of nothing": lambda e: add(e, "alarm", pack({"monitor": "stop", "message": "x"})),
    "a retirement of no round": lambda e: add(e, "act", pack({"act": "retire", **FORGED})),
    "a second setting": lambda e: add(e, "settings", e[0]["body"]),
    "looser settings": update("settings", "limits", "error", tolerated=0.9),
    "another salt": update("settings", salt="00"),
    "a faster growth": update("settings", growth=9.0),
    "another old risk": update("settings", "old", "error", declared=0.001),
    "a step too early": lambda e: add(e, "round", last(e, "round")["body"]),
    "a kind of its own": lambda e: add(e, "wish", pack({})),
    "no body": lambda e: e[-1].update(body=b""),
}
"""Forged events; all of them but the last steps' words would change what is served or shown."""
SETTINGS = ("looser settings", "another salt", "a faster growth", "another old risk")
"""Without settings a run cannot be opened at all."""
UNSEEN_WITH_A_NEW_CHAIN = {"a loss", "no losses", "no halt", "another tightening"}
"""What could have happened just so, for whoever believes the chain that the forger made anew."""


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_without_a_new_chain_is_named(edit, halted, tmp_path):
    store = forged(halted, "plain", tmp_path, EDITS[edit], chained=False)
    try:
        with Run.open(store) as run:
            assert run.verify()
            assert run.history().alarm is not None
    except TamperedError:
        assert edit in SETTINGS


@pytest.mark.parametrize("edit", sorted(EDITS.keys() - UNSEEN_WITH_A_NEW_CHAIN))
def test_an_edit_with_a_new_chain_contradicts_the_rows(edit, halted, tmp_path):
    store = forged(halted, "plain", tmp_path, EDITS[edit], chained=True)
    try:
        with Run.open(store) as run:
            assert run.verify()
    except (TamperedError, StoreError):
        pass


@pytest.mark.parametrize("edit", EDITS)
def test_a_signature_sees_every_edit(edit, halted, tmp_path):
    store = forged(halted, "signed", tmp_path, EDITS[edit], chained=True)
    try:
        with Run.open(store) as run:
            assert run.verify(halted / "key.pub")
        with Release(store, key=halted / "key.key") as release:
            assert set(release.assign([f"n{k}" for k in range(100)])) == {"old"}
    except (TamperedError, StoreError):
        pass


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("signed", [True, False])
def test_one_insert_does_not_lift_a_halt(signed, chained, running, halted, tmp_path):
    if chained and not signed:
        pytest.skip("who can make a chain and needs no key can do what tether can")
    store = copy(halted, "signed.db" if signed else "plain.db", tmp_path)
    given = {"key": halted / "key.key"} if signed else {}
    release = Release(store, **given)
    if not running:
        release.close()
    rewrite(store, lambda events: add(events, "act", RESUME), chained=chained)
    if not running:
        release = Release(store, **given)
    with release:
        assert set(release.assign([f"n{k}" for k in range(300)])) == {"old"}
        assert release.share == 0.0
        assert release.history().alarm.monitor == "tampered"
        with pytest.raises(TamperedError):
            release.resume("please", actor="eve")
        assert release.verify()


def test_events_that_disappear_are_noticed_by_a_running_process(halted, tmp_path):
    store = copy(halted, "plain.db", tmp_path)
    with Release(store) as release, sqlite3.connect(store) as database:
        database.execute(
            "DELETE FROM tether_events WHERE seq > (SELECT max(seq) - 2 FROM tether_events)"
        )
        database.commit()
        assert set(release.assign([f"n{k}" for k in range(300)])) == {"old"}
        assert release.history().alarm.monitor == "tampered"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM tether_claims WHERE name IN (SELECT name FROM tether_claims LIMIT 1)",
        "INSERT INTO tether_claims VALUES (x'6b7a', zeroblob(16))",
        "UPDATE tether_claims SET value = zeroblob(16)",
        "UPDATE tether_cache SET content = substr(content, 2)",
    ],
)
def test_the_index_and_the_cache_are_compared(statement, tmp_path, monkeypatch):
    monkeypatch.setattr("tether.runs.event_log.EVENTS_PER_CACHE", 10)
    fill(tmp_path / "run.db")
    with Run.open(tmp_path / "run.db") as run:
        assert run.verify() == []
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.execute(statement)
    database.close()
    with Run.open(tmp_path / "run.db") as run:
        assert run.verify()
        assert run.history().alarm.message == "the new system must not serve"


def test_a_cache_is_believed_only_if_the_chain_vouches_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tether.runs.event_log.EVENTS_PER_CACHE", 10)
    fill(tmp_path / "run.db")
    fill(tmp_path / "other.db")
    with sqlite3.connect(tmp_path / "other.db") as database:
        seq, content = database.execute("SELECT seq, content FROM tether_cache").fetchone()
    database.close()
    with Run.open(tmp_path / "run.db") as run:
        expected = run.history()
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.execute("UPDATE tether_cache SET content = ?, seq = ?", (content, seq))
    database.close()
    with Run.open(tmp_path / "run.db") as run:
        assert run.history() == expected


def test_an_export_is_the_run(halted, tmp_path, store_url):
    with Run.open(halted / "signed.db") as run:
        run.export(tmp_path / "export")
        expected = run.history()
        with pytest.raises(FileExistsError, match="export"):
            run.export(tmp_path / "export")
        with pytest.raises(StoreError, match="signed"):
            run.resume("no key")
    import_run(tmp_path / "export", store_url)
    for store in (store_url, tmp_path / "export"):
        with Run.open(store) as run:
            assert run.history().units == expected.units
            assert run.verify(halted / "key.pub") == []
    with pytest.raises(StoreError, match="already"):
        import_run(tmp_path / "export", store_url)
    sqlite3.connect(tmp_path / "empty").close()
    shutil.copy(tmp_path / "export", tmp_path / "emptied")
    with sqlite3.connect(tmp_path / "emptied") as database:
        database.execute("DELETE FROM tether_events")
    for nothing in ("nothing", "empty", "emptied"):
        with pytest.raises(StoreError, match=r"there is no store|does not hold"):
            import_run(tmp_path / nothing, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy.db*"))


def test_nothing_waits_for_a_store_that_was_changed_while_it_was_away(halted, tmp_path):
    store = copy(halted, "plain.db", tmp_path)
    with Release(store, fallback="old", deadline=0.3) as release:
        database = sqlite3.connect(store, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        assert release.assign("ann") == "old"
        assert release.observe("ann", {"error": 1.0}) == 1  # it waits
        database.execute("DELETE FROM tether_events WHERE seq > 5")
        database.execute("COMMIT")
        database.close()
        while release._log.tampered is None:  # it looks again by itself
            time.sleep(0.01)
        with pytest.raises(TamperedError):
            release.observe("ann", {"error": 1.0})
        assert release.assign("ann") == "old"


def test_without_its_key_a_signed_release_can_be_looked_at(tmp_path):
    generate_keys(tmp_path / "key")
    with Release(
        tmp_path / "a", {"e": 0.5}, old={"e": 0.0}, step=1, key=tmp_path / "key.key"
    ) as run:
        run.observe("ann", {"e": 0.0}, system=run.assign("ann"))
        share = run._log.state.share
        with Release(tmp_path / "a") as looking:  # the step is over, and another has to begin it
            assert (looking.share, looking.step.number) == (share, 1)
            with pytest.raises(StoreError, match="signed"):
                looking.assign("bob")
        assert run.step.number == 2


@pytest.mark.parametrize("change", ["at = 'soon'", "body = 'text'", "kind = x'00'", "mark = 1.5"])
def test_a_value_of_another_type_is_not_as_it_was_written(halted, tmp_path, change):
    store = copy(halted, "plain.db", tmp_path)
    with sqlite3.connect(store) as database:
        database.execute("DELETE FROM tether_cache")
        database.execute(f"UPDATE tether_events SET {change} WHERE seq = 3")
    with Release(store) as release:
        assert release.assign("ann") == "old"
        assert "event 3" in release.verify()[0]
        for _ in range(2):  # the first has left no file
            with pytest.raises(TamperedError, match="event 3"):
                release.export(tmp_path / "export")


@pytest.mark.slow
def test_every_bit_of_a_store_or_an_export_counts(halted, tmp_path):
    rng = np.random.default_rng(1)

    def flip_bit(events):
        event, name = rng.choice(events), rng.choice(["body", "body", "head", "mark"])
        content = bytearray(event[name])
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        event[name] = bytes(content)

    for _ in range(scaled(20, 200)):
        store = forged(halted, "plain", tmp_path, flip_bit, chained=False)
        with pytest.raises(TamperedError):
            import_run(store, tmp_path / "copy.db")
        try:
            with Run.open(store) as run:
                assert run.verify()
                assert run.history().alarm.monitor == "tampered"
        except TamperedError:
            pass
