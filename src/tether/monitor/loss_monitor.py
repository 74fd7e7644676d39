"""What monitors of losses share: their settings, the bets on losses above alpha, and saving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tether._core import records, validate
from tether._core.types import Floats
from tether.monitor.betting import Wealth
from tether.monitor.e_process import EProcess, MonitorStatus, check_saved, saved_values

MONITOR_SETTINGS = ("alpha", "bound", "false_alarm_probability")
"""What a monitor of losses is made with."""


def stakes(alpha: float) -> Floats:
    """The stakes λ that are bet, for losses in [0, 1]: from 1/(2·alpha) by halves to about 1/16.

    The first loses half of its money when the loss is 0 and wins most when it is 1; the last suits
    a risk that exceeds alpha by a few per cent.
    """
    largest = 0.5 / max(alpha, 1e-6)  # a smaller alpha would gain nothing from a larger stake
    count = 1 + math.ceil(math.log2(16 * largest))
    return np.asarray(largest * 0.5 ** np.arange(count))


class LossMonitor(records.Saved):
    """A monitor that bets on losses above alpha.

    A class derived from it says in `update` what one step of the e-process is. `_sums` names what
    it keeps beside the e-process, and `_restore` checks and sets it.
    """

    _sums: ClassVar[tuple[str, ...]]

    def __init__(
        self, alpha: float, bound: float = 1.0, false_alarm_probability: float = 0.05
    ) -> None:
        self.bound = validate.number("bound", bound, above=0, below=math.inf)
        self.alpha = validate.number("alpha", alpha, above=0, below=self.bound)
        self.false_alarm_probability = validate.number(
            "false_alarm_probability", false_alarm_probability, above=0, below=1
        )
        self._stakes = stakes(self.alpha / self.bound)
        self._e_process = EProcess(self.false_alarm_probability, Wealth.start(len(self._stakes)))

    def __repr__(self) -> str:
        settings = f"alpha={self.alpha:g}, bound={self.bound:g}"
        return f"{type(self).__name__}({settings}): {self.status}"

    @property
    def status(self) -> MonitorStatus:
        """The status after all losses so far."""
        raise NotImplementedError

    def _log_factors(self, scaled: Floats) -> Floats:
        """Log of the factor by which each stake (a row) multiplies at losses over the bound."""
        excess = scaled - self.alpha / self.bound
        return np.asarray(np.log1p(self._stakes[:, None] * excess))

    def to_dict(self) -> dict[str, Any]:
        """Convert the state of the monitor to plain values that JSON can hold.

        Returns
        -------
        dict
            All that `from_dict` needs to continue; neither losses nor keys are in it.
        """
        settings = {name: getattr(self, name) for name in MONITOR_SETTINGS}
        sums = {name: getattr(self, f"_{name}") for name in self._sums}
        return {"kind": self._kind} | settings | sums | {"e_process": self._e_process.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Restore a monitor that continues exactly where the saved one stopped.

        Parameters
        ----------
        content : mapping
            What `to_dict` returned.

        Returns
        -------
        LossMonitor
            The restored monitor, of the class that was asked.

        Raises
        ------
        ValueError
            If the content is not a complete and consistent saved monitor of this kind.
        """
        check_saved(content, cls._kind, (*MONITOR_SETTINGS, *cls._sums, "e_process"))
        with saved_values():
            self = cls(*(content[name] for name in MONITOR_SETTINGS))
        self._e_process = EProcess.from_dict(
            content["e_process"],
            false_alarm_probability=self.false_alarm_probability,
            bets=len(self._stakes),
        )
        self._restore(content)
        return self

    def _restore(self, saved: Mapping[str, Any]) -> None:
        """Set the sums from a saved monitor, whose e-process is restored already."""
        raise NotImplementedError

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        return cls.from_dict({"kind": cls._kind} | saved)


def saved_sum(name: str, value: Any, most: int, counted: str = "") -> float:
    """A saved sum of so many numbers, each of at most 1."""
    with saved_values():
        number = validate.real(name, value)
    if not 0 <= number <= most:
        raise ValueError(f"{name} must be from 0 to {counted}{most}, got {number!r}")
    return number
