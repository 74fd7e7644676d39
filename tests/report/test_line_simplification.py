import itertools

import numpy as np
import pytest

from tether.report.line_simplification import simplify_line


def test_a_simplified_line_stays_close_to_all_points():
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(400))
    y = np.cumsum(rng.normal(size=400)) / 40 + 3 * x**2
    kept_x, kept_y = simplify_line(x, y, (300.0, 200.0), 0.4)
    assert len(kept_x) < len(x)
    assert {*zip(kept_x, kept_y, strict=True)} <= {*zip(x, y, strict=True)}
    kept = np.searchsorted(x, kept_x)
    pixels = np.column_stack([300 * x, 200 * y])
    for left, right in itertools.pairwise(kept):
        direction = (pixels[right] - pixels[left]) / np.hypot(*(pixels[right] - pixels[left]))
        offset = pixels[left : right + 1] - pixels[left]
        distance = np.hypot(*(offset - np.outer(offset @ direction, direction)).T)
        assert distance.max() <= 0.4 + 1e-9


@pytest.mark.parametrize(("points", "kept"), [(50, 2), (0, 0)])
def test_a_straight_line_needs_its_ends_only(points, kept):
    x, y = simplify_line(np.arange(float(points)), np.zeros(points), (1.0, 1.0))
    assert len(x) == len(y) == kept
