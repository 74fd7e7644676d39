"""Methods that promise an expected loss: a confidence is asked of another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from tether.risk.selection import Selection

Arguments = ParamSpec("Arguments")


def in_expectation(method: Callable[Arguments, Selection]) -> Callable[Arguments, Selection]:
    """Let the method name `tether.ltt` where a confidence is passed."""

    @wraps(method)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Selection:
        if "confidence" in kwargs:
            raise TypeError(
                f"{method.__name__} takes no confidence, got {kwargs['confidence']!r}: it promises "
                "a mean over data. For a promise that holds with a probability use tether.ltt"
            )
        return method(*args, **kwargs)

    return checked
