"""The table of extras says what pyproject.toml says, and missing packages are named."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tether._core.extras import EXTRAS, REQUIRED, extra_of, how_to_install

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
FOR_DEVELOPMENT = {"bench", "docs", "experiments", "smollm", "test"}


def requirements(extra):
    """Names and oldest versions, with extras of extras resolved."""
    found = {}
    for text in PROJECT["optional-dependencies"][extra]:
        if text.startswith("tether["):
            for inner in text[7:-1].split(","):
                found |= requirements(inner)
        else:
            name, oldest = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", text).groups()
            found[name.lower()] = oldest
    return found


def test_the_table_says_what_the_project_says():
    listed = {name: {each.name: each.oldest for each in EXTRAS[name]} for name in EXTRAS}
    users = set(PROJECT["optional-dependencies"]) - FOR_DEVELOPMENT
    assert listed == {name: requirements(name) for name in users}
    required = dict(text.split(">=") for text in PROJECT["dependencies"])
    assert {each.name: each.oldest for each in REQUIRED} == required
    error = ModuleNotFoundError("No module named 'sklearn'", name="sklearn.tree")
    assert how_to_install("aim", error) == "aim needs sklearn: pip install 'tether[learn]'"
    assert extra_of("numpy") is None


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import tether
try:
    {statement}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "statement", "extra"),
    [
        ("sklearn", "tether.learn", "learn"),
        ("torch", "tether.llm.CausalPolicy", "llm"),
        ("matplotlib", "tether.gcrc([[0.0, 0.1]] * 50, alpha=0.2).plot()", "plot"),
    ],
)
def test_without_an_extra_the_library_says_how_to_install_it(module, statement, extra):
    code = BLOCKED.format(blocked=module, statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"pip install 'tether[{extra}]'" in done.stdout, done.stderr
