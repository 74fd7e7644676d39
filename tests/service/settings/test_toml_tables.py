"""Values of a TOML file."""

from datetime import timedelta

import pytest

from tether.service.settings.toml_tables import Table


def test_durations_have_units():
    for given, seconds in ((90, 90), (0.5, 0.5), ("90", 90), ("15m", 900), ("1.5h", 5400)):
        assert Table("t", {"d": given}).duration("d") == timedelta(seconds=seconds)
    assert Table("t", {"d": "7d"}).duration("d") == timedelta(days=7)
    assert Table("t", {}).duration("d") is None


@pytest.mark.parametrize("given", ["", "h", "1w", "-1", True, [1], {}, "1e3", -1])
def test_other_durations_are_refused(given):
    with pytest.raises(ValueError, match=r"t\.d must be a number of seconds"):
        Table("t", {"d": given}).duration("d")
    with pytest.raises(ValueError, match=r"t\.d is too long: '999999999999999d'"):
        Table("t", {"d": "9" * 15 + "d"}).duration("d")


def test_what_nobody_takes_is_refused():
    table = Table("limits", {"burst": 3, "brust": 4})
    assert table.integer("burst", 1, least=1, most=9) == 3
    with pytest.raises(ValueError, match=r"limits\.brust is no setting, got 4; there are burst"):
        table.finish(("burst",))
