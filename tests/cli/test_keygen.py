"""`tether keygen`."""

import stat

from tests.cli.command_line import one_line, run


def test_a_pair_of_keys_is_made_once(tmp_path):
    done = run("keygen", tmp_path / "ops")
    assert done.exit_code == 0, done.output
    assert "Key id: SHA256:" in one_line(done)
    assert stat.S_IMODE((tmp_path / "ops.key").stat().st_mode) == 0o600
    assert (tmp_path / "ops.pub").read_text().startswith("ssh-ed25519 ")
    before = (tmp_path / "ops.key").read_bytes()
    assert run("keygen", tmp_path / "ops").exit_code == 2
    assert (tmp_path / "ops.key").read_bytes() == before
