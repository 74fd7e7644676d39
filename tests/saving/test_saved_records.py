"""Forged records: every change is named by something that can know."""

import json

import numpy as np
import pytest

import tether
from tether._core.records import Saved, content_digest
from tether._core.signing import generate_keys
from tether.saving import verify_record
from tether.saving.verify_record import _record_classes

RULES = {
    "alpha": {"alpha": 0.2},
    "promise": {"promise": 0.2, "seed": 3},
    "confidence": {"alpha": 0.3, "confidence": 0.9},
    "ratio error": {"alpha": 0.2, "ratio_error": 1.3},
    "mix": {"alpha": 0.2, "family": "mix"},
    "none": {"alpha": 0.01},
}


def world(rows=2000, **columns):
    rng = np.random.default_rng(0)
    taken, drawn = rng.normal(size=rows), rng.normal(1, 1, size=rows)

    def scores(actions):
        return -(actions**2) / 2 - 0.92, -((actions - 1) ** 2) / 2 - 0.92

    log = tether.Log((taken > 1.5).astype(float), *scores(taken), **columns)
    return log, tether.Proposals(*scores(drawn))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for name in ("ops", "thief"):
        generate_keys(folder / name)
    for name, asked in RULES.items():
        tether.calibrate(*world(), **asked).save(folder / f"{name}.json", key=folder / "ops.key")
    return folder


def entries_of(path):
    return json.loads(path.read_text())


def write(path, entries, *, digest=False):
    if digest:
        kept = {k: v for k, v in entries.items() if k not in ("digest", "signature")}
        entries = {**entries, "digest": content_digest(kept)}
    path.write_text(json.dumps(entries))
    return path


def names_of(verification):
    return {each.name for each in verification.findings if each.ok is False}


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


def places(entries, path=()):
    for name, value in entries.items():
        yield (*path, name)
        if isinstance(value, dict) and name not in ("digest", "signature"):
            yield from places(value, (*path, name))


def edited(entries, place):
    entries = json.loads(json.dumps(entries))
    inner = entries
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = changed(inner[place[-1]])
    return entries


@pytest.mark.parametrize("rule", RULES)
def test_the_log_of_a_calibration_gives_it_again(folder, rule):
    log, proposals = world()
    known = {"key": folder / "ops.pub", "log": log, "proposals": proposals}
    found = verify_record(folder / f"{rule}.json", **known)
    assert found.ok, str(found)
    assert {each.name for each in found.findings} == {"digest", "signature", "content", "result"}


@pytest.mark.parametrize("rule", ["alpha", "promise", "confidence"])
def test_another_log_does_not_nor_does_the_log_a_larger_beta_with_a_new_digest(
    folder, tmp_path, rule
):
    log, proposals = world()
    lower = tether.Log(0.2 * log.loss["loss"], log.log_safe, log.log_optimized)
    found = verify_record(folder / f"{rule}.json", log=lower, proposals=proposals)
    assert names_of(found) == {"result"}
    entries = entries_of(folder / f"{rule}.json")
    del entries["signature"]
    for each in (entries, *entries["losses"].values()):
        each["log_beta"] = 5.0
    path = write(tmp_path / "forged.json", entries, digest=True)
    assert names_of(verify_record(path, log=log, proposals=proposals)) == {"result"}


def test_every_forged_entry_is_found(folder, tmp_path):
    """Without a new digest by the digest, with one by the signature."""
    entries, path = entries_of(folder / "promise.json"), tmp_path / "forged.json"
    for place in places(entries):
        if place[0] in ("digest", "signature"):
            continue
        made = edited(entries, place)
        assert names_of(verify_record(write(path, made))) & {"digest", "format"}, place
        with pytest.raises(ValueError, match=r"forged\.json"):
            tether.Calibration.load(path)
        signed = verify_record(write(path, made, digest=True), key=folder / "ops.pub")
        assert names_of(signed) & {"signature", "format"}, place


def test_a_signature_of_another_key_or_record_is_none(folder, tmp_path):
    entries = entries_of(folder / "alpha.json")
    tether.calibrate(*world(), alpha=0.4).save(tmp_path / "other.json", key=folder / "thief.key")
    stolen = entries_of(tmp_path / "other.json")
    for made in (
        {**stolen, "signature": entries["signature"]},  # a good signature of something else
        {**stolen, "signature": {**stolen["signature"], "key": entries["signature"]["key"]}},
        {name: value for name, value in stolen.items() if name != "signature"},
    ):
        path = write(tmp_path / "forged.json", made)
        assert verify_record(path).ok  # a true record, which anyone can make
        assert names_of(verify_record(path, key=folder / "ops.pub")) == {"signature"}
    del entries["digest"]
    found = verify_record(write(tmp_path / "forged.json", entries), key=folder / "ops.pub")
    assert names_of(found) == {"digest", "signature"}


def test_other_files_are_named(tmp_path):
    for content in ("", "[]", '{"kind": "cake"}', '{"kind": "a", "kind": "b"}'):
        path = tmp_path / "other.json"
        path.write_text(content)
        assert not verify_record(path).ok


def test_every_kind_of_record_can_be_verified(tmp_path):
    for kind in Saved.__subclasses__():
        known = any(issubclass(each, kind) for each in _record_classes())
        assert known or not kind.__module__.startswith("tether."), kind
    tether.plan(safe_risk=0.05, alpha=0.1, rows=500).save(tmp_path / "plan.json")
    assert verify_record(tmp_path / "plan.json").ok


def test_an_archive_of_policies_is_verified(tmp_path):
    file = tmp_path / "policy.tether"
    tether.save_policy(tether.Gaussian(0.0, 1.0), file)
    assert verify_record(file).ok
    file.write_bytes(file.read_bytes().replace(b"policy", b"police"))
    assert not verify_record(file).ok
