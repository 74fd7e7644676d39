"""Claims from a source: which of its columns are scores, labels, items, groups and weights."""

from __future__ import annotations

from typing import Any

from tether.risk.claim_parts import ClaimColumns
from tether.risk.scanned_claims import ScannedClaims
from tether.scan.source import open_source


def scan_claims(
    source: Any,
    *,
    scores: str,
    supported: str,
    items: str,
    groups: str | None = None,
    weights: str | None = None,
    log_weights: str | None = None,
    where: Any = None,
) -> ScannedClaims:
    """Open a source whose rows are claims."""
    if weights is not None and log_weights is not None:
        raise ValueError("pass weights or log_weights, not both")
    columns = ClaimColumns(scores, supported, items, groups, weights, log_weights)
    opened = open_source(source, where=where)
    if opened.names is not None:
        for name in columns.names:
            if name not in opened.names:
                raise ValueError(f"{opened!r} has no column {name!r}; it has {opened.names}")
    return ScannedClaims(opened, columns)
