"""Names load what they need, and say what is lacking."""

import sys

import pytest

import tether


def test_what_is_lacking_is_named(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "tether.llm.local.causal_policy", None
    )  # as if torch were not there
    with pytest.raises(ImportError, match=r"CausalPolicy needs pip install 'tether\[llm\]'"):
        _ = tether.llm.CausalPolicy
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tether.llm.Nothing
