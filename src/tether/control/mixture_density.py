"""The density of the mixture of policies that produced a log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Floats
from tether._core.validate import floats, log_probabilities, reject, same_length


def mixture_log_density(log_columns: ArrayLike | Sequence[ArrayLike], counts: ArrayLike) -> Floats:
    """Log-density of the mixture of several policies, each weighted by the rows it produced.

    Parameters
    ----------
    log_columns : array_like or sequence of array_like
        The log-density of every row of the log under every policy that was deployed, a tethered
        policy with its normalizing constant: a table of rows × policies, or a list with one column
        per policy.
    counts : array_like
        How many rows each policy produced.

    Returns
    -------
    ndarray of float
        The log-density at each row: what `Log` and `Proposals` take as `log_mix`.

    Raises
    ------
    TypeError, ValueError
        If the columns differ in length, or a count is negative, infinite or missing, or all are 0.

    Examples
    --------
    >>> mixture_log_density([np.log([0.2, 0.8]), np.log([0.6, 0.4])], counts=[30, 10]).round(3)
    array([-1.204, -0.357])
    """
    if isinstance(log_columns, (list, tuple)):
        columns = [floats(f"log_columns[{k}]", column) for k, column in enumerate(log_columns)]
        for k, column in enumerate(columns):
            same_length(f"log_columns[{k}]", column, "log_columns[0]", len(columns[0]))
        log_columns = np.column_stack(columns) if columns else np.empty((0, 0))
    table = log_probabilities("log_columns", log_columns, ndim=2, zero=True)
    weights = floats("counts", counts)
    same_length("counts", weights, "log_columns (its columns)", table.shape[1])
    if not (weights.min() >= 0 and 0 < weights.sum() < np.inf):
        bad = ~((weights >= 0) & (weights < np.inf))
        reject("counts", weights, bad if bad.any() else ~bad, "counts of at least 0, not all 0")
    with np.errstate(divide="ignore"):
        log_shares = np.log(weights / weights.sum())
    return np.asarray(np.logaddexp.reduce(table + log_shares, axis=1))
