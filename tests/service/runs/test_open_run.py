"""Opening the run that functions of the user make."""

import sys

import pytest

import tether
from tether.service.runs.open_run import open_run
from tether.service.settings.run_table import RunTable


def make_nothing():
    return 5


def make_in_memory():
    return tether.Controller(tether.Gaussian(0.0), alpha=0.5, store="sqlite://")


def test_a_function_without_a_store():
    run = open_run(RunTable("tests.service.runs.test_open_run:make_in_memory"))
    assert run.follow().number == 1
    assert not run.can_begin
    run.close()


def test_modules_beside_the_file_are_found(tmp_path, monkeypatch):
    (tmp_path / "module_beside.py").write_text(
        "import tether\n\n"
        "def make(store):\n"
        "    return tether.Controller(tether.Gaussian(0.0), alpha=0.5, store=store)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    table = RunTable("module_beside:make", store=str(tmp_path / "run.db"), folder=tmp_path)
    open_run(table).close()
    assert (tmp_path / "run.db").exists()


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("no_such_module_anywhere:make", ValueError, "run.controller"),
        ("tests.service.runs.test_open_run:no_such_name", ValueError, "run.controller"),
        ("tests.service.runs.test_open_run:make_nothing", TypeError, "tether.Controller"),
        ("tests.service.runs.test_open_run:__name__", ValueError, "run.controller"),
    ],
)
def test_what_is_wrong_is_said(path, error, message):
    with pytest.raises(error, match=message):
        open_run(RunTable(path))
