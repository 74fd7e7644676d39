"""Conformal policy control."""

from tether.risk import (
    Claims,
    ScoredLabels,
    Selection,
    conservative_alpha,
    crc,
    filter_claims,
    gcrc,
    ltt,
    monotonized_crc,
    spread_ties,
    sweep,
)

__all__ = [
    "Claims",
    "ScoredLabels",
    "Selection",
    "conservative_alpha",
    "crc",
    "filter_claims",
    "gcrc",
    "ltt",
    "monotonized_crc",
    "spread_ties",
    "sweep",
]
