"""The small results of queries, as Python records."""

from __future__ import annotations

from typing import Any

import narwhals as nw


def records(query: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    """The rows of a small result of DuckDB or Polars."""
    native = query.to_native()
    if query.implementation.is_duckdb():
        names = query.collect_schema().names()
        return [dict(zip(names, row, strict=True)) for row in native.fetchall()]
    found: list[dict[str, Any]] = native.collect(engine="streaming").to_dicts()
    return found
