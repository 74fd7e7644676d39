"""A fit or a calibration that fails leaves an estimator as it was.

Without this a new model could stay behind with the threshold, and the promise, of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Take back what was assigned to the attributes of `estimator` if an error occurs."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        now = vars(estimator)
        for name in now.keys() - before.keys():
            del now[name]
        now.update(before)
        raise
