"""`tether sign`, and `tether verify` of a store."""

import sqlite3

from tests.cli.command_line import one_line, run


def test_a_store_is_signed_and_verified(store, tmp_path):
    assert run("verify", store).exit_code == 0
    assert run("keygen", tmp_path / "ops").exit_code == 0
    assert run("verify", store, "--key", tmp_path / "ops.pub").exit_code == 1
    done = run("sign", store, "--key", tmp_path / "ops.key", "--actor", "Ada")
    assert done.exit_code == 0, done.output
    done = run("verify", store, "--key", tmp_path / "ops.pub")
    assert done.exit_code == 0, done.output
    assert "hash chain" in one_line(done)
    assert (
        run("export", store, tmp_path / "run.parquet", "--key", tmp_path / "ops.key").exit_code == 0
    )
    done = run("verify", tmp_path / "run.parquet", "--key", tmp_path / "ops.pub")
    assert done.exit_code == 0, done.output
    opened = sqlite3.connect(store)
    opened.execute("update tether_observations set loss = 0.9 where action = 1")
    opened.commit()
    opened.close()
    done = run("verify", store)
    assert done.exit_code == 1
    assert "observations 1 to 150 of lane 0 are not as they were written" in one_line(done)
