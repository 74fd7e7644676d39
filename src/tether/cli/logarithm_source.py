"""Files of which columns are changed while they are read.

Logarithms are taken of columns of probabilities, and missing losses are counted as the worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._core.kernels import Columns, Kernel, needs_whole_parts
from tether._core.types import Floats
from tether.cli.missing_losses import filled
from tether.control.log_checks import SHARE_TOLERANCE
from tether.scan.source import Source


@dataclass(frozen=True)
class Logarithms:
    """Which columns are made: the name of each, the column that it is made of, and how."""

    made: tuple[tuple[str, str, Callable[[Any], Floats]], ...] = ()
    log_safe: str = "log_safe"
    min_propensity: float | None = None
    counted_as: Mapping[str, float] = field(default_factory=dict)
    """What a missing loss of some columns counts as."""

    def read_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of a file that columns with these names are made of."""
        origin = {target: column for target, column, _ in self.made}
        return tuple(dict.fromkeys(origin.get(name, name) for name in names))

    def columns(self, names: tuple[str, ...], read: Columns) -> dict[str, Any]:
        """The columns with these names, from what was read."""
        made = {target: logs(read[column]) for target, column, logs in self.made if target in names}
        found = {name: made[name] if name in made else read[name] for name in names}
        for name in found.keys() & self.counted_as.keys():
            found[name] = filled(found[name], self.counted_as[name])
        if self.min_propensity is not None and self.log_safe in found:
            lowest = float(np.min(found[self.log_safe]))
            if lowest < np.log(self.min_propensity) - SHARE_TOLERANCE:
                raise ValueError(
                    f"--min-propensity is {self.min_propensity:g}, but an action was taken with "
                    f"the probability {np.exp(lowest):.6g}"
                )
        return found


@dataclass(frozen=True)
class KernelOfLogarithms:
    """A kernel that is given logarithms in place of probabilities."""

    kernel: Kernel
    logarithms: Logarithms

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return self.logarithms.read_names(self.kernel.columns)

    @property
    def whole_parts(self) -> bool:
        """Whether a file must be read in one piece."""
        return needs_whole_parts(self.kernel)

    def partial(self, columns: Columns) -> Any:
        """The summary of one part."""
        return self.kernel.partial(self.logarithms.columns(self.kernel.columns, columns))


class LogarithmSource:
    """A source with columns of logarithms beside its own."""

    def __init__(self, source: Source, logarithms: Logarithms) -> None:
        self.source, self.logarithms = source, logarithms
        self.names = [*(source.names or []), *(target for target, _, _ in logarithms.made)]

    def reduce(self, kernel: Kernel) -> Any:
        """Read the columns that the kernel's are made of, and merge its summaries."""
        return self.source.reduce(KernelOfLogarithms(kernel, self.logarithms))

    def __repr__(self) -> str:
        return repr(self.source)
