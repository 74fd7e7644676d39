"""Names of groups as a selection has them."""

import numpy as np
import pytest

from tether.risk.group_names import group_names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["a", "b "]), ["a", "b "]),
        (np.array([b"a", "ä".encode()]), ["a", "ä"]),
        (np.array([b"\xff"]), ["\\xff"]),
        (np.array([2**63], dtype=np.uint64), ["9223372036854775808"]),
        (np.array([True, False]), ["True", "False"]),
    ],
)
def test_a_label_has_one_name(labels, names):
    assert group_names(labels).tolist() == names
