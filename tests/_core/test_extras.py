"""Missing packages are named, with the extra that brings them."""

import subprocess
import sys

import pytest

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
