"""Fewer points for the same line: the Ramer–Douglas–Peucker algorithm."""

from __future__ import annotations

import numpy as np

from tether._core.arrays import Floats


def simplify_line(
    x: Floats, y: Floats, pixels_per_unit: tuple[float, float], tolerance: float = 0.4
) -> tuple[Floats, Floats]:
    """Keep the points that a line needs to stay within `tolerance` pixels of all of them."""
    pixels = np.column_stack([x * pixels_per_unit[0], y * pixels_per_unit[1]])
    keep = np.zeros(len(x), dtype=bool)
    keep[:1] = keep[-1:] = True
    segments = [(0, len(x) - 1)]
    while segments:
        left, right = segments.pop()
        if right - left < 2:
            continue
        direction = pixels[right] - pixels[left]
        length = float(np.hypot(*direction)) or 1.0
        offset = pixels[left + 1 : right] - pixels[left]
        distance = np.abs(direction[0] * offset[:, 1] - direction[1] * offset[:, 0]) / length
        farthest = int(distance.argmax())
        if distance[farthest] > tolerance:
            split = left + 1 + farthest
            keep[split] = True
            segments += [(left, split), (split, right)]
    return x[keep], y[keep]
