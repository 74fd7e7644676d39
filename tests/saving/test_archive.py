"""The container: deterministic bytes, and nothing in it that its manifest does not vouch for."""

import io
import json
import zipfile

import pytest

from tether.saving.archive import manifest_of, pack, read_json, stored_zip, unpack, unzip

MEMBERS = {"policy.json": b"[]", "arrays/1.npy": b"x" * 100}
LIMIT = 1 << 20


def test_what_was_packed_is_unpacked_and_the_bytes_are_the_same():
    data = pack(MEMBERS)
    assert unpack(data, LIMIT) == MEMBERS
    assert pack(dict(MEMBERS)) == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # anyone can look inside
        assert archive.testzip() is None
        assert json.loads(archive.read("manifest.json"))["format"] == 1


def test_the_digest_does_not_depend_on_the_version_of_the_package(monkeypatch):
    before = manifest_of(MEMBERS)["digest"]
    monkeypatch.setattr("tether.saving.archive.__version__", "99.0")
    assert manifest_of(MEMBERS)["digest"] == before


def forged(**changes):
    """A file whose manifest is consistent but for some changes."""
    manifest = {**manifest_of(MEMBERS), **changes}
    return stored_zip({"manifest.json": json.dumps(manifest).encode(), **MEMBERS})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a complete zip archive"),
        (b"PK\5\6" + bytes(18), "no manifest.json"),
        (stored_zip(MEMBERS), "no manifest.json"),
        (stored_zip({"manifest.json": b"{"}), "manifest.json is not valid JSON"),
        (stored_zip({"manifest.json": b"\xff"}), "manifest.json is not valid JSON"),
        (stored_zip({"manifest.json": b"[" * 100_000}), "nested too deeply|not valid JSON"),
        (stored_zip({"manifest.json": b"[]"}), "no version of the format"),
        (forged(format=True), "no version of the format"),
        (forged(format=0), "no version of the format"),
        (forged(format=2), "has format 2, .* reads formats up to 1"),
        (forged(format=2**70), f"has format {2**70}"),
        (forged(format="1"), "no version of the format"),
        (forged(format=1.0), "no version of the format"),
        (forged(more=1), "other entries than expected"),
        (forged(digest="0" * 64), "manifest.json was changed"),
        (forged(members=[]), "manifest.json was changed"),
        (forged(members=float("nan")), "NaN is not allowed"),
        (stored_zip({"manifest.json": b'{"format": 1, "format": 1}'}), "a key occurs twice"),
    ],
)
def test_manifests_that_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        unpack(data, LIMIT)


def test_members_that_the_manifest_does_not_vouch_for():
    manifest = json.dumps(manifest_of(MEMBERS)).encode()
    cases = {
        "member 'arrays/1.npy' of the file is damaged": {**MEMBERS, "arrays/1.npy": b"y" * 100},
        "lacks the member 'arrays/1.npy'": {"policy.json": b"[]"},
        "has a member 'arrays/2.npy' that": {**MEMBERS, "arrays/2.npy": b""},
    }
    for message, members in cases.items():
        with pytest.raises(ValueError, match=message):
            unpack(stored_zip({"manifest.json": manifest, **members}), LIMIT)


@pytest.mark.parametrize(
    "name", ["../evil.npy", "/etc/passwd", "a/../b.npy", "arrays/1.npy/", "C:\\x.npy", "é.npy", "a"]
)
def test_names_that_lead_elsewhere(name):
    with pytest.raises(ValueError, match="which is no name"):
        unzip(stored_zip({name: b""}), "the file")


def test_a_name_that_occurs_twice():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("policy.json", "[]")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("policy.json", "[1]")
    with pytest.raises(ValueError, match="two members with the name"):
        unzip(buffer.getvalue(), "the file")


def test_compressed_members_are_refused_before_they_are_read():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arrays/1.npy", bytes(50_000_000))
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(ValueError, match="a compressed or encrypted member"):
        unpack(buffer.getvalue(), LIMIT)


def test_members_that_claim_to_be_larger_than_the_file():
    data = bytearray(stored_zip({"arrays/1.npy": b"x" * 100}))
    start = data.index(b"PK\1\2")  # the central directory
    for offset in (20, 24):
        data[start + offset : start + offset + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(ValueError, match="claims 2,147,483,648"):
        unzip(bytes(data), "the file")


def test_files_larger_than_allowed():
    with pytest.raises(ValueError, match="more than max_bytes = 100"):
        unpack(pack(MEMBERS), 100)


def test_too_many_members(monkeypatch):
    monkeypatch.setattr("tether.saving.archive.MAX_MEMBERS", 2)
    with pytest.raises(ValueError, match="has 3 members, at most 2"):
        unpack(pack(MEMBERS), LIMIT)


def test_a_number_with_too_many_digits():
    with pytest.raises(ValueError, match="x is not valid JSON"):
        read_json("x", b"1" * 10_000)
