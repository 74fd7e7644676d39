"""API keys and their file."""

import json
import os
import stat

import pytest

from tether.service import ApiKeys, add_key, remove_key


def test_the_file_has_hashes_and_no_keys(tmp_path):
    file = tmp_path / "keys.json"
    one, other = add_key(file, "ann", ["read", "operate"]), add_key(file, "bob", ["decide"])
    assert one != other
    assert one.startswith("tether_")
    assert len(one) == 50
    assert one[7:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    keys = ApiKeys.read(file)
    assert keys.find(one).name == "ann"
    assert keys.find(one).roles == {"read", "operate"}
    assert keys.find(other).name == "bob"
    for wrong in ("", one[:-1], one + "a", one.upper(), "\udc80", keys.keys[0].digest):
        assert keys.find(wrong) is None


@pytest.mark.parametrize(
    ("name", "roles", "message"),
    [
        ("", ["read"], "name must begin with a letter"),
        ("a\nb", ["read"], r"got 'a\\nb'"),
        ("ann", ["read"], "name must be a new one, got 'ann'"),
        ("bob", [], r"roles must be some of .*, got \[\]"),
        ("bob", "read", "got 'read'"),
        ("bob", ["admin"], "got 'admin'"),
    ],
)
def test_wrong_keys_are_refused(tmp_path, name, roles, message):
    add_key(tmp_path / "keys.json", "ann", ["read"])
    before = (tmp_path / "keys.json").read_text()
    with pytest.raises(ValueError, match=message):
        add_key(tmp_path / "keys.json", name, roles)
    assert (tmp_path / "keys.json").read_text() == before


def test_other_files_are_no_files_of_keys(tmp_path):
    file, good = tmp_path / "keys.json", {"name": "a", "roles": ["read"], "sha256": "0" * 64}
    for content in (
        [],
        {"keys": 3},
        {"keys": []},
        {"keys": [3]},
        {"keys": [good, good]},
        {"keys": [good, good | {"name": "b", "roles": ["operate"]}]},
        {"keys": [good | {"roles": ["x"]}]},
        {"keys": [good | {"sha256": "0"}]},
        {"keys": [good | {"name": 3}]},
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"keys\.json (is not a file of|has no) API keys"):
            ApiKeys.read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"keys\.json is not a file of API keys"):
        ApiKeys.read(file)


def test_a_key_is_removed_by_its_name(tmp_path):
    file = tmp_path / "keys.json"
    ann, bob = (add_key(file, name, ["read"]) for name in ("ann", "bob"))
    with pytest.raises(ValueError, match="name must be one of 'ann', 'bob', got 'eve'"):
        remove_key(file, "eve")
    remove_key(file, "ann")
    keys = ApiKeys.read(file)
    assert (keys.find(ann), keys.find(bob).name) == (None, "bob")
    with pytest.raises(ValueError, match="would have no keys without 'bob'"):
        remove_key(file, "bob")
    assert ApiKeys.read(file).find(bob)


def test_whoever_may_read_the_file_still_may_after_a_change(tmp_path):
    """A service that cannot read it any more would go on to accept a key that is revoked."""
    file = tmp_path / "keys.json"
    add_key(file, "ann", ["read"])
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    groups = [each for each in os.getgroups() if each != file.stat().st_gid]
    if os.geteuid() == 0:
        os.chown(file, 10_001, 10_002)
    elif groups:
        os.chown(file, -1, groups[0])
    before = file.stat()
    add_key(file, "bob", ["read"])
    remove_key(file, "ann")
    after = file.stat()
    assert [key.name for key in ApiKeys.read(file).keys] == ["bob"]
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
