"""The facade: names are imported when first used, and missing extras are reported."""

import subprocess
import sys

import pytest

import tether


def test_a_missing_extra_is_reported_with_the_pip_command(monkeypatch):
    # As if torch were not installed.
    monkeypatch.setitem(sys.modules, "tether.llm.local.causal_policy", None)
    message = r"CausalPolicy needs optional dependencies: pip install 'tether\[llm\]'"
    with pytest.raises(ImportError, match=message):
        _ = tether.llm.CausalPolicy


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tether.llm.Nothing


def test_dir_lists_the_public_names():
    assert dir(tether.llm) == sorted(tether.llm.__all__)
    assert {"CausalPolicy", "OpenAIPolicy", "preflight"} <= set(dir(tether.llm))


def test_importing_the_facade_loads_no_heavy_library():
    code = (
        "import sys, tether.llm; dir(tether.llm); "
        "assert not {'torch', 'transformers', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
