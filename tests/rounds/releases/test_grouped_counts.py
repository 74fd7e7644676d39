"""Counts of several groups together."""

from tether.release import ArmCounts
from tether.rounds.releases.grouped_counts import GroupedCounts


def test_groups_are_added_and_unknown_losses_are_pending():
    counts = GroupedCounts[str](["harm"])
    counts.rows |= {"a": 3, "b": 2}
    counts.known["a", "harm"], counts.known["b", "harm"] = 2, 2
    counts.totals["a", "harm"], counts.totals["b", "harm"] = 0.5, 1.0
    assert counts.counts(["a", "b"]) == {"harm": ArmCounts(5, 1.5, 1)}
    assert counts.counts(iter(["a"])) == {"harm": ArmCounts(3, 0.5, 1)}
    assert counts.counts(["none"]) == {"harm": ArmCounts(0, 0.0)}
    assert set(counts.rows) == {"a", "b"}
