"""The mutants still apply; `make mutants` shows that the tests notice them."""

from tests import mutants


def test_every_mutant_applies_exactly_once():
    assert mutants.unfit() == []


def test_there_are_enough_and_each_changes_something():
    assert len({each.name for each in mutants.MUTANTS}) == len(mutants.MUTANTS) >= 40
    assert all(each.old != each.new for each in mutants.MUTANTS)
