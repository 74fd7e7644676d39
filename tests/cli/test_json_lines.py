"""JSON lines, a batch at a time."""

import numpy as np
import pytest

from tether.cli import json_lines
from tether.cli.table_batches import read_batches


def read(path):
    return list(read_batches(path, texts=("key",), numbers=("a", "b")))


def test_lines_are_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "ROWS_PER_BATCH", 2)
    lines = ['{"key": 7, "a": true}', "", '{"key": "é", "a": null, "c": 1}', '{"key": "x", "b": 2}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    first, second = read(tmp_path / "x.jsonl")
    assert first.texts == {"key": ["7", "é"]}
    assert list(first.numbers) == ["a"]
    assert np.array_equal(first.numbers["a"], [1, np.nan], equal_nan=True)
    assert (second.first, second.texts["key"], second.numbers["b"].tolist()) == (3, ["x"], [2.0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        ("[1]", "line 1: must be an object"),
        ('{"key": 1.5}', "line 1: 'key' must be text or an integer, got 1.5"),
        ('{"key": true}', "line 1: 'key' must be text or an integer, got True"),
        ('{"a": "1"}', "line 1: 'a' must be a number, got '1'"),
        ('{"a": 1' + "0" * 400 + "}", "line 1: 'a' is too large"),
        ('{"key": "' + "x" * 2**20 + '"}', "has a line of more than 1,048,576 letters"),
        ("", "has no rows"),
        ("\udcff", "cannot be read"),
    ],
)
def test_wrong_lines(tmp_path, line, message):
    (tmp_path / "x.jsonl").write_bytes(line.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "x.jsonl")
