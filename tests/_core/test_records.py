"""Records as plain values and JSON files, and back."""

import json

import numpy as np
import pytest

from tether._core import records


def test_encode_gives_plain_json():
    content = {1: np.float64(0.5), "b": (np.int64(2), np.array([np.inf, np.nan])), "c": None}
    encoded = records.encode(content)
    assert encoded == {"1": 0.5, "b": [2, ["inf", "nan"]], "c": None}
    assert json.loads(json.dumps(encoded, allow_nan=False)) == encoded


def test_decode_inverts_encode_except_for_text():
    content = {"beta": np.inf, "low": [-np.inf, 1.0], "name": "inf", "warnings": ["nan"]}
    assert records.decode(records.encode(content)) == content
    assert records.decode({"beta": "inf"}, ("beta",)) == {"beta": "inf"}
    nested = {"name": {"beta": "inf"}}  # a dictionary is a record of its own, not text
    assert records.decode(nested) == {"name": {"beta": np.inf}}


def test_a_file_is_read_only_as_what_it_was_written_as(tmp_path):
    path = tmp_path / "record.json"
    records.write(path, "plan", {"rows": 3, "beta": np.inf})
    assert records.read(path, "plan") == {"rows": 3, "beta": np.inf}
    with pytest.raises(ValueError, match=r"record.json holds 'plan', expected a saved 'selection'"):
        records.read(path, "selection")
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"record.json is not a saved record"):
        records.read(path, "plan")
    path.write_text("{")
    with pytest.raises(ValueError, match=r"record.json is not JSON"):
        records.read(path, "plan")
