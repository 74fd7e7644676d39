"""The table `run`."""

import pytest

from tether.service import read_service_settings


def read(tmp_path, text):
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_service_settings(path)


def test_a_run_is_named(tmp_path, monkeypatch):
    made = read(tmp_path, '[run]\ncontroller = "a.b:make"\n')
    assert (made.run.controller, made.run.optimized, made.run.store) == ("a.b:make", None, None)
    assert made.run.folder == tmp_path
    monkeypatch.setenv("STORE", "sqlite:///x.db")
    text = (
        '[run]\ncontroller = "a:b"\noptimized = "a:c"\nstore_variable = "STORE"\ncalls_at_once = 2'
    )
    made = read(tmp_path, text)
    assert (made.store, made.run.optimized, made.run.calls_at_once) == ("sqlite:///x.db", "a:c", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[run]\ncontroller = "a:b"\n[release]\nstore = "x"', "must be one of"),
        ("[run]", "run.controller is missing"),
        ('[run]\ncontroller = "a"', "run.controller: an import path"),
        ('[run]\ncontroller = "a:b"\noptimized = "c"', "run.optimized: an import path"),
        ('[run]\ncontroller = "a:b"\nalpha = 1', "run.alpha is no setting"),
        ('[run]\ncontroller = "a:b"\nstore = "x"\nstore_variable = "Y"', "run.store_variable"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)
