"""Records as plain values and JSON files, and back."""

import json

import numpy as np
import pytest

from tether._core import records, signing


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


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_any_change_of_the_content_is_noticed(tmp_path):
    path = tmp_path / "record.json"
    records.write(path, "plan", {"rows": 3, "beta": np.inf, "name": "a"})
    rewrite(path, '"rows": 3', '"rows": 4')
    with pytest.raises(ValueError, match=r"record.json: the content does not have the digest"):
        records.read(path, "plan")
    rewrite(path, '"rows": 4', '"rows": 3')
    assert records.read(path, "plan")["rows"] == 3
    path.write_text(json.dumps(json.loads(path.read_text())))  # the layout is not the content
    assert records.read(path, "plan")["rows"] == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"rows": 3', '"rows": 3, "rows": 3', "'rows' occurs twice"),
        ('"rows": 3', '"rows": NaN', "NaN is not a number of JSON"),
        ('"rows": 3', '"rows": 1e999', "number that JSON cannot hold"),
        ('"rows": 3', '"rows": ' + "[" * 100_000, "is not JSON"),
        ('"digest": "sha256', '"digest": "sha512', "does not have the digest"),
        ('"digest":', '"other":', "the record has no digest"),
    ],
)
def test_what_is_not_written_here_is_refused(tmp_path, old, new, message):
    path = tmp_path / "record.json"
    records.write(path, "plan", {"rows": 3})
    rewrite(path, old, new)
    with pytest.raises(ValueError, match=message):
        records.read(path, "plan")


def test_a_value_that_cannot_be_saved_leaves_the_old_file(tmp_path):
    path = tmp_path / "record.json"
    records.write(path, "plan", {"rows": 3})
    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        records.write(path, "plan", {"text": "x" * 20_000, "rows": object()}, overwrite=True)
    assert path.read_bytes() == before
    with pytest.raises(FileExistsError):
        records.write(path, "plan", {"rows": 4})
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_only_the_owner_of_the_key_can_sign(tmp_path):
    path, key, other = (tmp_path / name for name in ("record.json", "ops", "other"))
    signing.generate_keys(key)
    signing.generate_keys(other)
    records.write(path, "plan", {"rows": 3}, key=f"{key}.key")
    assert records.read(path, "plan", key=f"{key}.pub") == records.read(path, "plan")
    with pytest.raises(ValueError, match="the signature is not one of the key SHA256:"):
        records.read(path, "plan", key=f"{other}.pub")
    signed = json.loads(path.read_text())
    records.write(tmp_path / "forged.json", "plan", {"rows": 4})  # with its own, right digest
    forged = json.loads((tmp_path / "forged.json").read_text())
    for signature in (signed["signature"], signed["signature"]["signature"], [], None, {"key": 1}):
        path.write_text(json.dumps(forged | {"signature": signature}))
        assert records.read(path, "plan") == {"rows": 4}
        with pytest.raises(ValueError, match=r"signature is not one|is not signed"):
            records.read(path, "plan", key=f"{key}.pub")
    with pytest.raises(ValueError, match="the record is not signed"):
        records.read(tmp_path / "forged.json", "plan", key=f"{key}.pub")
