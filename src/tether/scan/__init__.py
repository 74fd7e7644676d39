"""Logs larger than memory: sources of rows that are read in parts.

A source applies a kernel (`tether._core.kernels`) to each of its parts and merges the
summaries. `open_source` finds the source for what a user passes: a path, folder or glob of Parquet
files, or a function that applies a kernel to partitions of its own.
"""

from tether.scan.claims import scan_claims
from tether.scan.parquet import Parquet
from tether.scan.scanned import scan_log, scan_proposals
from tether.scan.source import FunctionSource, Source, open_source

__all__ = [
    "FunctionSource",
    "Parquet",
    "Source",
    "open_source",
    "scan_claims",
    "scan_log",
    "scan_proposals",
]
