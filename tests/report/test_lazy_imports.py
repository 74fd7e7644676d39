"""`tether.report` loads what it needs on first use."""

import subprocess
import sys

import pytest

import tether.report

CHECK_PREAMBLE = "import sys; loaded = lambda *names: any(name in sys.modules for name in names); "


def check(code):
    """Run assertions in a fresh interpreter."""
    command = [sys.executable, "-c", CHECK_PREAMBLE + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_neither_the_page_nor_rounds():
    check(
        "import tether.report; "
        "assert not loaded('tether.report.page', 'tether.rounds', 'sqlalchemy', 'matplotlib')"
    )


def test_importing_a_module_does_not_load_the_page():
    check(
        "from tether.report.figures import plot_calibration; "
        "assert not loaded('tether.report.page', 'tether.rounds', 'sqlalchemy')"
    )


def test_the_facade_loads_the_package_on_first_use():
    check(
        "import tether; assert not loaded('tether.report'); "
        "assert callable(tether.report.write) and callable(tether.report.render); "
        "assert loaded('tether.report.page') and not loaded('matplotlib', 'sqlalchemy')"
    )


def test_rendering_does_not_import_pyplot():
    check(
        "import tether; from tests.report import example_histories; "
        "tether.report.render(example_histories.one_safe_round()); "
        "assert loaded('matplotlib') and not loaded('matplotlib.pyplot')"
    )


def test_dir_lists_what_can_be_used():
    assert {"render", "write"} <= set(dir(tether.report))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'tether.report' has no attribute 'print'"):
        tether.report.print  # noqa: B018
