"""The envelope of a family that states its own acceptance probability."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tether._core.types import Floats
from tether.control.family import Family
from tether.sampling.envelope import LOG_ACCEPT_TOLERANCE, Envelope


@dataclass(frozen=True)
class FamilyEnvelope(Envelope):
    """Proposals from the two policies by the family's own share, accepted as the family says."""

    log_constant: float = 0.0
    family: Family = field(kw_only=True)

    @property
    def always_valid(self) -> bool:
        """The family states its acceptance probability, which is checked at every draw."""
        return True

    def log_importance_weight(self, log_ratio: Floats) -> Floats:
        """Log of kernel over proposal density, scaled to at most one."""
        log_accept = np.asarray(self.family.log_accept(log_ratio, self.log_beta), dtype=np.float64)
        if not (log_accept <= LOG_ACCEPT_TOLERANCE).all():
            raise ValueError(
                f"family {self.family.name!r} accepts a proposal with log-probability "
                f"{log_accept.max():g}: log_accept must be at most 0 at every ratio"
            )
        return log_accept
