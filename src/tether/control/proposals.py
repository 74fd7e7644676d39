"""Proposals: fresh draws whose losses nobody knows, scored under both policies."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import frames, validate
from tether._core.types import Floats

SOURCES = ("safe", "optimized")


class Proposals:
    """Draws that tell how heavy a test point can be and what each normalizer is.

    `source` says which policy drew them: "safe", "optimized", or one of these a row. With contexts,
    every context of the log needs draws here; a few from each policy estimate its normalizer far
    better than many from one. `log_mix` scores the draws under the mixture that produced the log.
    """

    def __init__(
        self,
        log_safe: Any,
        log_optimized: Any,
        *,
        context: Any = None,
        log_mix: Any = None,
        source: Any = "optimized",
    ) -> None:
        self.log_safe = validate.log_probabilities("log_safe", log_safe, zero=True)
        rows = len(self.log_safe)
        self.log_optimized = validate.log_probabilities("log_optimized", log_optimized, zero=True)
        validate.same_length("log_optimized", self.log_optimized, "log_safe", rows)
        self.from_safe = _from_safe(source, rows)
        for policy, values, drew in (
            ("safe", self.log_safe, self.from_safe),
            ("optimized", self.log_optimized, ~self.from_safe),
        ):
            if (
                drew.any()
                and values.min() == -np.inf
                and (impossible := drew & np.isneginf(values)).any()
            ):
                what = f"a finite log-probability, since the {policy} policy drew this row"
                validate.reject(f"log_{policy}", values, impossible, what)
        self.context: NDArray[Any] | None = None
        if context is not None:
            self.context = validate.labels("context", context, rows)
        self.log_mix: Floats | None = None
        if log_mix is not None:
            self.log_mix = validate.log_probabilities("log_mix", log_mix, zero=True)
            validate.same_length("log_mix", self.log_mix, "log_safe", rows)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        context: str | None = None,
        log_mix: str | None = None,
        source: str | None = None,
    ) -> Self:
        """Proposals from any frame, by column names (`Log.from_frame` says which frames).

        `source` is a policy's name, or a column of them; a column called `source` is used when it
        is there, and without one the draws count as the optimized policy's.
        """
        if source in SOURCES and source not in frames.names(frame):
            drawn: Any = source
        else:
            drawn = frames.optional(frame, "source", source)
        return cls(
            frames.column(frame, "log_safe", log_safe),
            frames.column(frame, "log_optimized", log_optimized),
            context=frames.optional(frame, "context", context),
            log_mix=frames.optional(frame, "log_mix", log_mix),
            source="optimized" if drawn is None else drawn,
        )

    def __len__(self) -> int:
        return len(self.log_safe)

    def __repr__(self) -> str:
        drawn = int(self.from_safe.sum())
        contexts = "" if self.context is None else ", with contexts"
        return f"Proposals({drawn} safe and {len(self) - drawn} optimized draws{contexts})"


def _from_safe(source: Any, rows: int) -> NDArray[np.bool_]:
    if isinstance(source, str):
        return np.full(rows, validate.choice("source", source, SOURCES) == "safe")
    named = validate.labels("source", source, rows)
    unknown = ~np.isin(named, SOURCES)
    if unknown.any():
        validate.reject("source", named, unknown, "'safe' or 'optimized'")
    return np.asarray(named == "safe")
