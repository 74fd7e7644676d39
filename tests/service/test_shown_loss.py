"""A refused loss, and what to send instead."""

import pytest

from tether.service.shown_loss import shown_loss


@pytest.mark.parametrize(
    ("value", "bound", "said"),
    [
        ("0.5", 1.0, '"0.5": this is text; send the number without quotes'),
        (True, 1.0, "true: send 1 for the harm and 0 for a good outcome"),
        (100, 1.0, "100: is it a percentage? 100 % is 1"),
        (100, 40.0, "100"),
        ("nan", 1.0, '"nan"'),
    ],
)
def test_what_to_send_instead_is_said(value, bound, said):
    assert shown_loss(value, bound).startswith(said)
    assert "pandas" not in shown_loss(value, bound)
