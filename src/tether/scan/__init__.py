"""Logs larger than memory: rows in Parquet files, in frames of other engines, on a Ray cluster.

`open_rows` finds the rows of whatever a user passes to `Log.scan` and `Proposals.scan`. What is
computed from them never differs from a log in memory: kernels are mapped over blocks of rows.
"""

from tether.scan.files import OnRay
from tether.scan.sources import open_rows

__all__ = ["OnRay", "open_rows"]
