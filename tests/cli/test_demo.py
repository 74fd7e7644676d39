"""`tether demo`."""

from tests.cli.command_line import run


def test_the_folder_is_passed_to_both_parts(tmp_path, monkeypatch):
    folders = []
    monkeypatch.setattr("tether.demo.biopsy.run", folders.append)
    monkeypatch.setattr("tether.demo.biopsy_rounds.run_rounds", folders.append)
    assert run("demo", "--out", tmp_path).exit_code == 0
    assert folders == [tmp_path, tmp_path]
    assert "biopsy" in run("demo", "--help").output
