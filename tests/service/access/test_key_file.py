"""A file of API keys that is followed."""

import logging

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
