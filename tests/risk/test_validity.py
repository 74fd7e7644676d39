"""Promises measured in worlds whose risk is known; the long version is in benchmarks."""

import pytest
from benchmarks import validity_thresholds as validity

from tests.scale import scaled

pytestmark = pytest.mark.slow
REPEATS = scaled(200)


@pytest.fixture(scope="module")
def rows():
    return validity.run(REPEATS, seed=100)


@pytest.mark.parametrize("kind", ["expectation", "probability"])
def test_every_promise_is_kept(rows, kind):
    concerned = [row for row in rows if row.kind == kind]
    assert len(concerned) >= 10
    assert [str(row) for row in concerned if not row.holds] == []


def test_methods_without_a_promise_fail_somewhere(rows):
    """CRC breaks where losses are not monotone; so do ignoring a shift, or the groups."""
    broken = {(row.world, row.method) for row in rows if not row.holds}
    assert broken == {
        ("dips, 80 items", "CRC"),
        ("known shift, 100 items", "gCRC, unweighted"),
        ("four groups, 200 items", "worst group, one for all"),
    }


def test_gcrc_uses_most_of_the_tolerated_risk(rows):
    """In the world of claims, it keeps more than the two methods that are valid without K."""
    risk = {row.method: row.risk for row in rows if row.world == "claims, fdr, 100 items"}
    assert risk["gCRC"] > 0.9 * 0.2
    assert risk["LTT"] < risk["monotonized CRC"] < risk["gCRC"]
