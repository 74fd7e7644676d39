"""`tether serve-key`."""

from tests.cli.command_line import one_line, run
from tether.service import ApiKeys


def test_a_key_is_shown_once_and_its_hash_is_stored(tmp_path):
    file = tmp_path / "keys.json"
    done = run("serve-key", file, "ann", "--role", "decide", "--role", "read")
    assert done.exit_code == 0, done.output
    secret = done.stdout.strip()
    assert ApiKeys.read(file).find(secret).roles == {"decide", "read"}
    assert secret not in file.read_text()
    again = run("serve-key", file, "ann", "--role", "read")
    assert again.exit_code == 2
    assert "name must be a new one, got 'ann'" in one_line(again)
    wrong = run("serve-key", file, "bob", "--role", "admin")
    assert wrong.exit_code == 2
    assert "got 'admin'" in one_line(wrong)
    neither = run("serve-key", file, "bob")
    assert neither.exit_code == 2
    assert "either --role, to make a key, or --revoke" in one_line(neither)


def test_a_key_is_revoked(tmp_path):
    file = tmp_path / "keys.json"
    ann, bob = (run("serve-key", file, name, "--role", "read").stdout.strip() for name in "ab")
    assert run("serve-key", file, "a", "--revoke").exit_code == 0
    assert ApiKeys.read(file).find(ann) is None
    assert ApiKeys.read(file).find(bob).name == "b"
    assert run("serve-key", file, "a", "--revoke").exit_code == 2
