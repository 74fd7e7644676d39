"""The mutants still apply; `make mutants` shows that the tests notice them."""

from tests.mutants import MUTANTS


def test_every_mutant_applies_exactly_once():
    assert [f"{each.file}: {each.name}" for each in MUTANTS if not each.is_fit()] == []


def test_there_are_enough_and_each_changes_something():
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 40
    assert all(each.old != each.new for each in MUTANTS)
