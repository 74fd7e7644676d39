"""How much is tried of what has no end: little in `make test`, more in `make endurance`."""

import os

SCALE = int(os.environ.get("TETHER_TEST_SCALE", "1"))


def scaled(count: int) -> int:
    """So many examples, kills or repeats in `make test`, and `TETHER_TEST_SCALE` times as many."""
    return count * SCALE
