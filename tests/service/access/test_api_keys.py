"""API keys and their file."""

import pytest

from tether.service import add_key


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
