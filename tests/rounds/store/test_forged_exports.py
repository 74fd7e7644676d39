"""Every forged export is refused by `import_run` and named by `check_export`."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.rounds.forged_stores import UNSTORED
from tests.rounds.store.forged_exports import (
    FORGERIES,
    Opened,
)
from tests.scale import scaled
from tether.rounds import Controller, StoreError, export_run, import_run
from tether.rounds.store import schema
from tether.rounds.store.export_format import KINDS
from tether.rounds.store.import_run import check_export


def sign(content):
    return hashlib.sha256(b"a secret" + content).hexdigest()


def is_signed(content, signature):
    return signature == sign(content)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run with rounds, scores, an alarm and an audit trail, exported."""
    folder = tmp_path_factory.mktemp("exported")
    rng = np.random.default_rng(0)
    safe = tether.Gaussian(0.0)
    with Controller(safe, alpha=0.3, store=folder / "run.db", alarm_risk=0.9) as run:
        run._store.sign = sign
        for number in range(1, 4):
            round_ = run.begin(tether.Gaussian(0.2 * number, 0.9))
            taken = round_.act(20, rng, key=f"call {number}")
            run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1), taken.ids)
        taken = round_.act(20, rng)
        run.withdraw(taken.ids[5:8], "the power failed", actor="Ada")
        with run._store.writing(exclusive=True) as writer:
            writer.record(schema.unstored, UNSTORED)
        run.halt("lunch", actor="Ada")
        round_.act(5, rng)
    export_run(folder / "run.db", folder / "run.parquet", sign=sign)
    return folder / "run.parquet"


def forged(exported, tmp_path, change, **options):
    opened = Opened.read(exported)
    change(opened)
    path = tmp_path / "forged.parquet"
    opened.write(path, **options)
    return path


def check_refused(path, tmp_path):
    checked = check_export(path)
    assert checked.findings, "check_export found nothing"
    assert "\n" not in checked.findings[0]
    with pytest.raises((ValueError, StoreError)) as refused:
        import_run(path, tmp_path / "new.db")
    assert str(refused.value)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("new.db")]


def test_the_export_itself_is_accepted_also_when_written_again(exported, tmp_path):
    assert set(Opened.read(exported).rows) == set(KINDS)
    for path in (exported, forged(exported, tmp_path, lambda opened: None)):
        checked = check_export(path, check_signature=is_signed)
        assert checked.findings == ()
        assert is_signed(checked.heads, checked.signature)
    import_run(path, tmp_path / "new.db")


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_export_is_refused(name, exported, tmp_path):
    original = Opened.read(exported)
    path = forged(exported, tmp_path, FORGERIES[name])
    if name.startswith("a row moved"):  # one of the two is no change
        moved = Opened.read(path)
        if moved.rows["action"] == original.rows["action"]:
            pytest.skip("the row is there already")
    check_refused(path, tmp_path)


def test_signatures_are_checked_with_a_key(exported, tmp_path):
    unsigned = forged(exported, tmp_path, lambda opened: opened.about.update(signature=None))
    assert check_export(unsigned).findings == ()
    found = check_export(unsigned, check_signature=is_signed).findings
    assert found == ("the export is not signed",)

    def change(opened):
        opened.rows["entry"][-1]["entry"]["lane"]  # the last lane has no signatures
        control = [row["entry"] for row in opened.rows["entry"] if row["entry"]["lane"] == -1]
        assert control[-1]["signature"] is not None
        control[-1]["signature"] = "forged"

    found = check_export(forged(exported, tmp_path, change), check_signature=is_signed).findings
    assert len(found) == 1
    assert "the signature of entry" in found[0]


@given(data=st.data())
@settings(max_examples=scaled(20), deadline=None)
def test_any_changed_value_is_found(data, exported, tmp_path_factory):
    """One value somewhere, of any kind of row, replaced by another of its type."""
    opened = Opened.read(exported)
    kind = data.draw(st.sampled_from(sorted(opened.rows)))
    row = opened.rows[kind][data.draw(st.integers(0, len(opened.rows[kind]) - 1))]
    holder = row[kind] if kind in ("entry", "scores") else row
    names = [name for name, value in holder.items() if value is not None]
    if kind in ("action", "observation", "entry", "scores"):
        names = [name for name in names if name not in ("kind", "signature")]
    else:
        names = ["record"]
    name = data.draw(st.sampled_from(sorted(names)))
    holder[name] = _other(data.draw, holder[name])
    folder = tmp_path_factory.mktemp("changed")
    opened.write(folder / "forged.parquet")
    assert check_export(folder / "forged.parquet").findings
    shutil.rmtree(folder)


def _other(draw, value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw(st.integers(1, 1_000))
    if isinstance(value, float):
        return value + draw(st.floats(0.001, 10))
    if isinstance(value, bytes):
        place = draw(st.integers(0, len(value) - 1))
        return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
    if isinstance(value, list) and not (value and isinstance(value[0], float)):
        return [*value, 1]
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], value[place] + 0.5, *value[place + 1 :]]
    try:
        record = json.loads(value)
    except ValueError:
        return value + "x"
    if not isinstance(record, dict) or not record:
        return value + "1"
    name = draw(st.sampled_from(sorted(record)))
    known = record[name]
    record[name] = 1 if known is None else _other(draw, known) if known != "" else "x"
    return json.dumps(record)


@given(data=st.data())
@settings(max_examples=scaled(30), deadline=None)
def test_a_damaged_file_is_refused_without_a_traceback(data, exported, tmp_path_factory):
    """Cut off at any place, or with bytes that were changed."""
    content = bytearray(exported.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 5))):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] ^= data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "forged.parquet"
    path.write_bytes(content)
    # A bit that no reader looks at may be changed; what is accepted is the run, unchanged.
    if not check_export(path).findings:
        assert Opened.read(path).rows == Opened.read(exported).rows
    shutil.rmtree(folder)
