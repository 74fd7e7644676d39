"""Logs larger than memory: rows in Parquet files, in frames of other engines, on a Ray cluster."""

from tether.scan.files import OnRay
from tether.scan.sources import open_rows

__all__ = ["OnRay", "open_rows"]
