"""`tether export`."""

from tests.cli.command_line import one_line, run


def test_a_run_is_exported_as_parquet(store, tmp_path):
    done = run("export", store, tmp_path / "run.csv")
    assert done.exit_code == 2
    assert "must end in .parquet" in one_line(done)
    assert run("export", store, tmp_path / "run.parquet").exit_code == 0
    assert (tmp_path / "run.parquet").stat().st_size > 0


def test_an_existing_file_is_replaced_only_with_force(store, tmp_path):
    path = tmp_path / "run.parquet"
    path.write_text("older")
    done = run("export", store, path)
    assert done.exit_code == 2
    assert "--force" in one_line(done)
    assert path.read_text() == "older"
    assert run("export", store, path, "--force").exit_code == 0
