"""The four methods by name, for a user who chooses one."""

from __future__ import annotations

from collections.abc import Callable

from tether.risk.learn_then_test import ltt
from tether.risk.methods import crc, gcrc, monotonized_crc
from tether.risk.selection import Selection

METHODS: dict[str, Callable[..., Selection]] = {
    "gcrc": gcrc,
    "crc": crc,
    "monotonized_crc": monotonized_crc,
    "ltt": ltt,
}
