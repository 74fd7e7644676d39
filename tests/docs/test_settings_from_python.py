"""Settings that a page writes in TOML and in Python are the same ones, and overwrite no other."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tether.service import read_service_settings

PAGES = Path(__file__).parents[2] / "docs" / "how_to"
WRITTEN_FILE = re.compile(r"Write `([^`]+)`:\n\n```toml\n(.*?)```", re.S)
IN_PYTHON = re.compile(r"same settings from Python:\n\n```python\n(.*?)```", re.S)


@pytest.mark.parametrize("page", ["serve.md", "gateway.md"])
def test_the_settings_in_python_are_those_in_toml(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEW_API_KEY", "a-key")
    text = (PAGES / page).read_text("utf-8")
    (found,) = WRITTEN_FILE.findall(text)
    (block,) = IN_PYTHON.findall(text)
    file = tmp_path / found[0]
    file.write_text(found[1])
    names = {}
    exec(block, names)
    assert file.read_text() == found[1]
    made, read = names["settings"], read_service_settings(file)
    places = {"store": str(tmp_path / made.store), "spool": tmp_path / made.spool}
    assert replace(made, **places) == read
