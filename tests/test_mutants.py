"""The mutants still apply; `make mutants` shows that the tests notice them."""

from tests.mutants import MUTANTS


def test_every_mutant_applies_exactly_once_under_a_name_of_its_own():
    assert [f"{each.file}: {each.name}" for each in MUTANTS if not each.is_fit()] == []
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 40
