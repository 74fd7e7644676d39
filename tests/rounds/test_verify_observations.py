"""Observations that tether cannot have written are named, also where the hash chain is right."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tether.rounds import (
    Controller,
    TamperedError,
    export_run,
    import_run,
    verify_export,
    verify_store,
)

BOUND = {"a": 1.0, "b": 4.0}


def written(path, **columns):
    """A run of 20 actions, 10 of them observed, and rows that only its writer accepts."""
    alpha = {"a": 0.3, "b": 1.0}
    with Controller(tether.Gaussian(0.0), store=path, alpha=alpha, bound=BOUND) as run:
        ids = run.begin().act(20, np.random.default_rng(0)).ids
        run.observe(ids[:10], {"a": np.full(10, 0.5), "b": np.full(10, 4.0)}, rewards=np.ones(10))
        run.withdraw(ids[10:12], "never carried out")
        run.observe(ids[12:14], {"b": np.zeros(2)})
        if columns:
            row = {"action": [18], "which": [0], "loss": [0.0], "reward": [None], "reason": [None]}
            count = len(next(iter(columns.values())))
            whole = {name: columns.get(name, values * count) for name, values in row.items()}
            with run._store.writing(exclusive=True) as writer:
                writer.observations(whole)
    return path


def problems(path):
    return [finding.text for finding in verify_store(path).problems]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"action": [0]}, "do not exist"),
        ({"action": [-7]}, "do not exist"),
        ({"action": [5000]}, "do not exist"),
        ({"which": [2]}, "does not have"),
        ({"which": [-1]}, "does not have"),
        ({"loss": [1.5]}, "outside"),
        ({"loss": [4.5], "which": [1]}, "outside"),
        ({"loss": [-1e-9]}, "outside"),
        ({"loss": [np.inf]}, "outside"),
        ({"reward": [-np.inf]}, "infinite"),
        ({"reward": [1e200]}, "too large"),
        ({"loss": [None], "reason": ["x"], "which": [1]}, "withdrawals with"),
        ({"loss": [None], "reason": ["x"], "reward": [1.0]}, "withdrawals with"),
        ({"loss": [None]}, "withdrawals with"),
        ({"reason": ["x"]}, "no withdrawals"),
        ({"action": [11], "which": [1]}, "withdrawn and observed"),
        ({"action": [13], "loss": [None], "reason": ["x"]}, "withdrawn and observed"),
        ({"which": [0, 1], "reward": [1.0, 1.0]}, "second rewards"),
    ],
)
def test_what_it_cannot_write_is_named(tmp_path, columns, words):
    path = written(tmp_path / "run.db", **columns)
    assert any(words in text for text in problems(path))
    export_run(path, tmp_path / "run.parquet")
    assert any(words in each.text for each in verify_export(tmp_path / "run.parquet").problems)
    with pytest.raises(TamperedError, match=words):
        import_run(tmp_path / "run.parquet", tmp_path / "again.db")
    assert not (tmp_path / "again.db").exists()
