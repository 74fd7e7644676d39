import pytest

from tether.release import ArmCounts


def test_a_pending_loss_counts_as_the_bound():
    assert ArmCounts(10, 4.0, pending=2).worst_total(bound=2.0) == 8.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0.0), "rows must be an integer of at least 0"),
        ((3, 0.0, -1), "pending must be an integer of at least 0"),
        ((3, 0.0, 4), "pending must be at most rows = 3, got 4"),
        ((3, -0.5), "total must be a finite sum of at least 0, got -0.5"),
        ((3, float("nan")), "total must be a finite sum"),
    ],
)
def test_impossible_counts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ArmCounts(*arguments)


def test_a_sum_above_the_bound_is_refused():
    with pytest.raises(ValueError, match="total must be at most bound = 1 times the 2 known"):
        ArmCounts(3, 2.5, pending=1).worst_total(1.0)
    assert ArmCounts(10, 10 * (0.1 + 0.2)).worst_total(0.3) == 3.0
