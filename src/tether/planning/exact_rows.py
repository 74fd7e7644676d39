"""The rows that a confidence needs where losses are 0 or of one size: counted exactly.

A log passes with at most so many harmful rows, whose number is binomial. So logs of n rows pass
with probability p exactly if they do with k(n) harmful rows, the p-quantile of that number. It
grows in steps, at each of which n may fail where n − 1 passed. The rows that are stated are those
after the last that fail.
"""

from __future__ import annotations

from tether.planning.confidence_model import ConfidenceModel
from tether.planning.first_passing import first_between, first_passing


def exact_rows(model: ConfidenceModel, alpha: float, pass_probability: float) -> int:
    """The fewest rows from which on logs pass with the probability."""
    from scipy.special import bdtr, bdtrik

    of = model.population
    share = of.mean / of.loss_size if of.mean else 0.0

    def quantile(rows: int) -> int:
        """The fewest harmful rows that logs do not exceed with the probability."""
        if share == 0:
            return 0
        found = bdtrik(pass_probability, rows, share)
        count = max(int(found), 0) if found == found else 0  # NaN where none is likely enough
        while bdtr(count, rows, share) < pass_probability:
            count += 1
        while count and bdtr(count - 1, rows, share) >= pass_probability:
            count -= 1
        return count

    def passes(rows: int, harmful: int) -> bool:
        return model.passes_with(harmful, alpha, rows)

    # One harmful row more than a quantile is more than steps of the quantile can ask for later.
    rows = first_passing(lambda size: passes(size, quantile(size) + 1), 1)
    while harmful := quantile(rows):
        begin = first_between(lambda size: quantile(size) >= harmful, 0, rows)
        if not passes(begin, harmful):
            return first_between(lambda size: passes(size, harmful), begin, rows)
        if begin == 1:
            return begin
        rows = begin - 1
    return first_between(lambda size: passes(size, 0), 0, rows)
