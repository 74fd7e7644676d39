"""How much is tried of what has no end: little in `make test`, more in `make endurance`."""

import os

SCALE = int(os.environ.get("TETHER_TEST_SCALE", "1"))


def scaled(count: int, endurance: int | None = None) -> int:
    """So many examples, kills or repeats in `make test`; in `make endurance` another number.

    That is `TETHER_TEST_SCALE` times as many where none is given.
    """
    return count * SCALE if SCALE == 1 or endurance is None else endurance
