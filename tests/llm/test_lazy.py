"""Names load what they need, and say what is lacking."""

import sys

import pytest

import tether


def test_what_is_lacking_is_named(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("tether.llm.causal")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"CausalPolicy needs pip install 'tether\[llm\]'"):
        _ = tether.llm.CausalPolicy
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tether.llm.Nothing
