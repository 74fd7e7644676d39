"""`tether backup`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_a_store_is_copied_once(store, tmp_path):
    assert run("backup", store, tmp_path / "copy.db").exit_code == 0
    assert read_history(tmp_path / "copy.db").rounds == read_history(store).rounds
    again = run("backup", store, tmp_path / "copy.db")
    assert again.exit_code == 2
    assert "never overwritten" in one_line(again)


def test_a_database_on_a_server_is_left_to_its_own_tools(tmp_path):
    done = run("backup", "postgresql://user:secret@host/name", tmp_path / "copy.db")
    assert done.exit_code == 2
    assert "pg_dump" in one_line(done)
    assert "secret" not in done.output


def test_force_replaces_a_file_and_never_a_store(store, tmp_path):
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    refused = run("backup", store, kept)
    assert refused.exit_code == 2
    assert "--force" in one_line(refused)
    assert kept.read_text() == "mine"
    assert run("backup", store, kept, "--force").exit_code == 0
    assert read_history(kept).rounds == read_history(store).rounds
    for database in (store, kept):  # the store itself, and another one
        before = database.read_bytes()
        again = run("backup", store, database, "--force")
        assert again.exit_code == 2
        assert "never overwritten" in one_line(again)
        assert database.read_bytes() == before
