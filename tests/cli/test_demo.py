"""`tether demo`."""

from tests.cli.command_line import one_line, run


def test_the_folder_is_passed_to_both_parts(tmp_path, monkeypatch):
    folders = []

    def called(folder, overwrite):
        folders.append((folder, overwrite))

    monkeypatch.setattr("tether.demo.biopsy.run", called)
    monkeypatch.setattr("tether.demo.biopsy_rounds.run_rounds", called)
    assert run("demo", "--out", tmp_path).exit_code == 0
    assert run("demo", "--out", tmp_path, "--force").exit_code == 0
    assert folders == [(tmp_path, False)] * 2 + [(tmp_path, True)] * 2
    assert "biopsy" in run("demo", "--help").output


def test_an_older_store_is_never_replaced(tmp_path):
    (tmp_path / "demo.db").write_text("mine")
    for words in ((), ("--force",)):
        done = run("demo", "--out", tmp_path, *words)
        assert done.exit_code == 2
        assert "a store is never overwritten" in one_line(done)
    assert (tmp_path / "demo.db").read_text() == "mine"
