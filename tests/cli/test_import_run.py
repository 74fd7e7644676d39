"""`tether import`."""

from tests.cli.command_line import one_line, run
from tether.rounds import read_history


def test_an_exported_run_is_imported_once(store, tmp_path):
    assert run("export", store, tmp_path / "run.parquet").exit_code == 0
    assert run("import", tmp_path / "run.parquet", tmp_path / "again.db").exit_code == 0
    assert read_history(tmp_path / "again.db").rounds == read_history(store).rounds
    again = run("import", tmp_path / "run.parquet", tmp_path / "again.db")
    assert again.exit_code == 2
    assert "holds a run already" in one_line(again)


def test_a_missing_file_creates_no_store(tmp_path):
    done = run("import", tmp_path / "none.parquet", tmp_path / "new.db")
    assert done.exit_code == 2
    assert "there is no file" in one_line(done)
    assert not (tmp_path / "new.db").exists()


def test_the_import_has_an_actor(store, tmp_path):
    assert run("export", store, tmp_path / "run.parquet").exit_code == 0
    words = ("import", tmp_path / "run.parquet", tmp_path / "again.db", "--actor", "Ada")
    assert run(*words).exit_code == 0
    assert read_history(tmp_path / "again.db").audit[-1].actor == "Ada"
