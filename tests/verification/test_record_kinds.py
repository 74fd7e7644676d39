"""Every class that saves is known to the verification."""

import tether.llm.preflight_checks.result
from tether._core.records import Saved
from tether.verification.record_kinds import find_kind


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_kind_is_found():
    assert tether.llm.preflight_checks.result
    kinds = {
        each._kind: each
        for each in subclasses(Saved)
        if hasattr(each, "_kind") and each.__module__.startswith("tether.")
    }
    assert len(kinds) >= 9
    assert {kind: find_kind(kind) for kind in kinds} == kinds
    assert find_kind("shopping list") is None
