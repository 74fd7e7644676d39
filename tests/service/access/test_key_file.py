"""A file of API keys that is followed."""

import logging

import pytest

from tests.service.running import bearer, running, settings, tries
from tether.service import add_key, remove_key
from tether.service.access.key_file import KEY_FILE_SECONDS, KeyFile


def test_keys_are_added_and_revoked_while_it_is_followed(tmp_path, caplog):
    caplog.set_level(logging.INFO, "tether.service")
    file, now = tmp_path / "keys.json", 0.0
    ann = add_key(file, "ann", ["read"])
    keys = KeyFile(file, lambda: now)
    bob = add_key(file, "bob", ["decide"])
    assert keys.find(bob) is None  # not looked at again yet
    now += KEY_FILE_SECONDS
    assert keys.find(bob).roles == {"decide"}
    remove_key(file, "ann")
    now += KEY_FILE_SECONDS
    assert keys.find(ann) is None
    assert [key.name for key in keys.keys] == ["bob"]
    changed = [record.fields for record in caplog.records]
    assert changed == [{"added": ["bob"], "removed": []}, {"added": [], "removed": ["ann"]}]


def test_a_key_whose_roles_change_has_the_new_ones(tmp_path):
    file, now = tmp_path / "keys.json", 0.0
    ann = add_key(file, "ann", ["read"])
    keys = KeyFile(file, lambda: now)
    file.write_text(file.read_text().replace("read", "operate"))
    now += KEY_FILE_SECONDS
    assert keys.find(ann).roles == {"operate"}


@pytest.mark.parametrize("content", [None, "", "{", '{"keys": []}'])
def test_a_broken_file_leaves_the_keys_as_they_were(tmp_path, caplog, content):
    file, now = tmp_path / "keys.json", 0.0
    ann = add_key(file, "ann", ["read"])
    keys, whole = KeyFile(file, lambda: now), file.read_text()
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    for _ in range(3):
        now += KEY_FILE_SECONDS
        assert keys.find(ann)
    assert [record.levelname for record in caplog.records] == ["ERROR"]  # once
    file.write_text(whole)
    bob = add_key(file, "bob", ["read"])
    now += KEY_FILE_SECONDS
    assert keys.find(bob)


def test_a_revoked_key_is_refused_without_a_restart(tmp_path):
    file = tmp_path / "keys.json"
    ann, _ = (add_key(file, name, ["read"]) for name in ("ann", "bob"))
    with running(settings(tmp_path / "release.db", keys=KeyFile(file))) as client:
        assert client.get("/v1/status", headers=bearer(ann)).status_code == 200
        remove_key(file, "ann")
        for _ in tries():
            if client.get("/v1/status", headers=bearer(ann)).status_code == 401:
                break
