"""The public names of the room are listed, and imported on first use."""

import subprocess
import sys

import pytest

from tether import rounds


def test_every_public_name_is_listed_and_found():
    assert set(rounds.__all__) <= set(dir(rounds))
    assert all(getattr(rounds, name).__name__ == name for name in rounds.__all__)
    assert sorted(rounds.__all__) == rounds.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Controler'"):
        _ = rounds.Controler


def test_the_database_library_is_imported_on_first_use():
    script = """
import sys
import tether.rounds
assert "sqlalchemy" not in sys.modules
tether.rounds.Controller
assert "sqlalchemy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_missing_library_says_what_to_install():
    script = """
import sys
sys.modules["sqlalchemy"] = None
import tether.rounds
try:
    tether.rounds.Controller
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "tether.rounds.Controller needs pip install 'tether[rounds]'" in done.stdout
