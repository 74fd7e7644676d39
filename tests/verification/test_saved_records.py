"""Forged records: every change is named by something that can know."""

import json

import pytest

import tether
from tests.control import forged_records as forged
from tests.control.test_calibration_record import CASES, gaussian
from tether._core import records
from tether.verification import generate_keys, verify_record


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for name in ("ops", "thief"):
        generate_keys(folder / name)
    CASES["alpha"]().save(folder / "found.json", key=folder / "ops.key")
    return folder


def names_of(verification):
    return {finding.name for finding in verification.problems}


def changed(value):
    """Another value of the same kind, as a forger would write it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 1.25 + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    return {"x": 1} if value is None or not value else None


ALL_PLACES = list(
    forged.places(
        json.loads(
            json.dumps(records.encode({"kind": "calibration", **CASES["alpha"]().to_dict()}))
        )
    )
)


def test_a_record_as_it_was_saved_passes(folder):
    for key in (None, folder / "ops.pub"):
        found = verify_record(folder / "found.json", key=key)
        assert found.ok, str(found)
    assert {finding.name: finding.ok for finding in found.findings} == {
        "digest": True, "content": True, "signature": True, "log": None,
    }  # fmt: skip


@pytest.mark.parametrize("place", ALL_PLACES, ids=lambda place: ".".join(map(str, place)))
def test_every_forged_entry_is_found(folder, tmp_path, place):
    """Without a new digest by the digest, with one by the signature, and often by the content."""
    entries = forged.entries_of(folder / "found.json")
    path = tmp_path / "forged.json"
    for made in (forged.edited(entries, place, changed), forged.removed(entries, place)):
        path.write_text(json.dumps(made))
        found = verify_record(path)
        assert not found.ok
        assert names_of(found) & {"digest", "format"}, str(found)
        with pytest.raises(ValueError, match=r"forged.json"):
            tether.Calibration.load(path)
        path.write_text(json.dumps(forged.with_digest(made)))
        signed = verify_record(path, key=folder / "ops.pub")
        assert names_of(signed) & {"signature", "format"}, str(signed)
        if place[0] == "kind":
            continue
        with pytest.raises(ValueError, match=r"forged.json"):
            tether.Calibration.load(path, key=folder / "ops.pub")


ONLY_A_SIGNATURE_OR_THE_LOG = {
    "contextual", "smoothness", "robustness", "acceptance", "rows_beyond_draws", "warnings",
    "actions", "approximate", "curves", "effective_sample_size", "max_weight", "rows",
    "relative_weights", "provenance", "promise_terms", "test_weight", "upper_bounds",
}  # fmt: skip
"""Entries of which some changes do not contradict the rest, as docs/how_to/verify.md says."""


def test_what_only_a_signature_or_the_log_reveals(folder, tmp_path):
    """Forgers with a new digest are found by the content wherever it can be computed again."""
    entries, unseen = forged.entries_of(folder / "found.json"), set()
    for place in ALL_PLACES:
        if place[0] == "kind":
            continue
        path = tmp_path / "forged.json"
        path.write_text(json.dumps(forged.with_digest(forged.edited(entries, place, changed))))
        if verify_record(path).ok:
            unseen.add(place[0])
            log, proposals = gaussian()
            compared = verify_record(path, log=log, proposals=proposals)
            version = place == ("provenance", "version")
            assert version or names_of(compared) & {"log", "result"}, (place, str(compared))
    assert unseen <= ONLY_A_SIGNATURE_OR_THE_LOG
    assert "provenance" in unseen  # so the test can see what it is for


def test_a_signature_of_another_key_or_record_is_none(folder, tmp_path):
    entries = forged.entries_of(folder / "found.json")
    CASES["infinite"]().save(tmp_path / "other.json", key=folder / "thief.key")
    stolen = forged.entries_of(tmp_path / "other.json")
    for made in (
        {**stolen, "signature": entries["signature"]},  # a good signature of something else
        {**stolen, "signature": {**stolen["signature"], "key": entries["signature"]["key"]}},
        {name: value for name, value in stolen.items() if name != "signature"},
    ):
        path = tmp_path / "forged.json"
        path.write_text(json.dumps(made))
        assert verify_record(path).ok  # a true record, which anyone can make
        assert names_of(verify_record(path, key=folder / "ops.pub")) == {"signature"}
    assert verify_record(tmp_path / "other.json", key=folder / "thief.pub").ok
