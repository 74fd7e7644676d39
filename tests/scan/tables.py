"""Folders of Parquet files for tests: logs and claims, also with something wrong in one of them."""

import numpy as np
import pyarrow as pa
from pyarrow import parquet


def log_columns(rng, rows):
    safe = rng.normal(-3, 1, rows)
    optimized = safe + rng.normal(-0.5, 1, rows)
    loss = (rng.random(rows) < 1 / (1 + np.exp(2 + safe - optimized))).astype(float)
    return {"loss": loss, "log_safe": safe, "log_optimized": optimized}


def claim_columns(rng, first_item, n_items=200, size=4):
    item = np.repeat(np.arange(n_items) + first_item, size)
    score = rng.random(len(item))
    return {"score": score, "label": rng.random(len(item)) < score, "item": item}


def write_log(folder, n_files=4, rows=2000, seed=0):
    """Files of a log, one of them without rows; all columns together."""
    rng = np.random.default_rng(seed)
    tables = [log_columns(rng, rows if number else 0) for number in range(n_files)]
    return _write(folder, tables)


def write_claims(folder, n_files=4, seed=0):
    rng = np.random.default_rng(seed)
    return _write(folder, [claim_columns(rng, 1000 * number) for number in range(n_files)])


def _write(folder, tables):
    folder.mkdir(exist_ok=True)
    for number, columns in enumerate(tables):
        parquet.write_table(pa.table(columns), folder / f"{number:04}.parquet")
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def replace_column(path, name, values):
    """Write a file again with another column under the same name."""
    table = parquet.read_table(path)
    place = table.column_names.index(name)
    parquet.write_table(table.set_column(place, name, pa.array(values)), path)
