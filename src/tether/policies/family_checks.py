"""Which families a tethered policy of two policies can serve, and how."""

from __future__ import annotations

from tether.control.families import Family, PathFamily


def check_family(family: Family, sampler: str, max_draws: int) -> None:
    """Refuse a family that is served elsewhere, or not by this sampler within these draws."""
    if isinstance(family, PathFamily):
        raise TypeError(
            f"family {family.name!r} is tethered at every token, which two policies over whole "
            f"answers cannot be: tether.llm.TokenTether serves it"
        )
    budget = family.max_draws
    if sampler != "auto" and not (family.clips and budget is None):
        raise ValueError(
            f"sampler {sampler!r} is for clip; family {family.name!r} samples by 'auto'"
        )
    if budget is not None and budget > max_draws:
        raise ValueError(
            f"family {family.name!r} makes up to {budget:,} draws per action, more than "
            f"max_draws = {max_draws:,}"
        )
