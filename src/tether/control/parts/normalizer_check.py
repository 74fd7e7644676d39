"""Whether draws in parts come from the policies whose log-probabilities they carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.control.context_draws import MAX_STANDARD_ERRORS
from tether.control.parts.in_parts import ProposalsInParts
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import ProposalsPart


@dataclass(frozen=True)
class NormalizerTerms:
    """Sums of optimized over the mixture of what the draws were made by, and of its square."""

    safe_share: float

    def of(self, part: ProposalsPart) -> LogSums:
        """The sums of a part."""
        share = self.safe_share
        with np.errstate(divide="ignore", invalid="ignore"):
            made_by = np.logaddexp(
                np.log(share) + part.log_safe, np.log1p(-share) + part.log_optimized
            )
            logs = part.log_optimized - made_by
        return LogSums.of([logs, 2 * logs])


def check_normalizer_in_parts(proposals: ProposalsInParts) -> None:
    """Refuse draws whose normalizer is clearly above one, as `check_normalizer` does in memory."""
    survey = proposals.survey
    if not survey.safe_rows:  # every term is one
        return
    (sums,) = proposals.reduce(NormalizerTerms(survey.safe_rows / survey.rows))
    with np.errstate(over="ignore"):
        mean, square = np.exp(sums.logs - np.log(survey.rows))
    error = max(float(np.sqrt(max(square - mean**2, 0.0))), 1.0) / np.sqrt(survey.rows)
    if np.isinf(mean) or mean > 1 + MAX_STANDARD_ERRORS * error:
        raise ValueError(
            f"the normalizer comes out as {mean:.4g} ± {error:.2g} and can be at most 1: the "
            f"proposals were not drawn from the policies whose log-probabilities they carry"
        )
