"""What is known about one system and one loss: how many rows, and what they cost together."""

from __future__ import annotations

from dataclasses import dataclass

from tether._core.validate import integer_at_least, real


@dataclass(frozen=True)
class ArmCounts:
    """The rows of one system in the calibration window, and the sum of their losses.

    A row is one key: the first unit that the system answered for it (:doc:`/explanation/release`).

    Parameters
    ----------
    rows : int
        The number of keys, those included whose loss is not known yet.
    total : float
        The sum of the losses that are known.
    pending : int, default 0
        The number of keys whose loss is not known. Each counts as the bound, which keeps every
        promise however the delay depends on the loss.

    Raises
    ------
    ValueError
        If a count is negative, more rows are pending than there are, or `total` is not a finite
        number of at least 0.

    Examples
    --------
    >>> ArmCounts(rows=100, total=2.0, pending=3).worst_total(bound=1.0)
    5.0
    """

    rows: int
    total: float
    pending: int = 0

    def __post_init__(self) -> None:
        integer_at_least("rows", self.rows, 0)
        integer_at_least("pending", self.pending, 0)
        if self.pending > self.rows:
            raise ValueError(f"pending must be at most rows = {self.rows}, got {self.pending!r}")
        if not 0 <= real("total", self.total) < float("inf"):
            raise ValueError(f"total must be a finite sum of at least 0, got {self.total!r}")

    def missing_text(self, bound: float) -> str:
        """Say how many of the rows have no outcome, and what they count as.

        Parameters
        ----------
        bound : float
            The largest possible loss.

        Returns
        -------
        str
            What follows the number of rows in a sentence; empty if no outcome is missing.

        Examples
        --------
        >>> ArmCounts(rows=100, total=2.0, pending=3).missing_text(bound=1.0)
        ', 3 of them without an outcome (counted as 1)'
        """
        if not self.pending:
            return ""
        return f", {self.pending:,} of them without an outcome (counted as {bound:g})"

    def worst_total(self, bound: float) -> float:
        """Return the sum of all losses if every pending one were the bound.

        Parameters
        ----------
        bound : float
            The largest possible loss.

        Returns
        -------
        float
            The sum.

        Raises
        ------
        ValueError
            If the known losses sum to more than the bound for each of them.
        """
        known = self.rows - self.pending
        if self.total > bound * known * (1 + 1e-9):
            raise ValueError(
                f"total must be at most bound = {bound:g} times the {known} known losses, got "
                f"{self.total!r}"
            )
        return min(float(self.total), bound * known) + bound * self.pending
