import dataclasses
import json

import numpy as np
import pytest

import tether
from tether._core import records

RNG = np.random.default_rng(11)
SCORES = RNG.random(3000)
CLAIMS = tether.Claims(SCORES, RNG.random(3000) < SCORES, np.arange(0, 3001, 5))


def selections():
    yield tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1.5)
    yield tether.crc(CLAIMS, alpha=0.2, weights=RNG.random(600))
    yield tether.ltt(CLAIMS, alpha=0.2, confidence=0.95)
    yield tether.gcrc(CLAIMS, alpha=0.0001)
    yield tether.gcrc(CLAIMS, alpha=[0.2, 0.5], loss=["fdr", "any_false"])
    yield tether.monotonized_crc(CLAIMS, alpha=0.2, groups=np.arange(600) % 3 // 2)
    yield tether.gcrc(CLAIMS, alpha=0.2, loss="miss")


@pytest.mark.parametrize("found", list(selections()))
def test_what_is_saved_is_loaded(found, tmp_path):
    found.save(tmp_path / "found.json")
    again = tether.Selection.load(tmp_path / "found.json")
    assert str(again) == str(found)
    assert repr(again) == repr(found)
    for loaded, saved in zip(again.curve(), found.curve(), strict=True):
        np.testing.assert_array_equal(loaded, saved)
    assert repr(tether.Selection.from_dict(found.to_dict())) == repr(found)


def test_plain_values_go_through_json():
    for found in selections():
        again = tether.Selection.from_dict(json.loads(json.dumps(found.to_dict())))
        assert repr(again) == repr(found)
        assert str(again) == str(found)


def test_names_that_look_like_numbers_or_entries_stay_names(tmp_path):
    losses = {"inf": np.zeros((60, 2)), "nan": np.ones((60, 2))}
    groups = np.repeat(["nan", "loss", "inf"], [25, 34, 1])
    found = tether.gcrc(losses, [1, np.inf], alpha=0.1, groups=groups)
    found.save(tmp_path / "found.json")
    again = tether.Selection.load(tmp_path / "found.json")
    assert again.pooled_groups == ("inf",)
    assert [part.loss for part in again.for_group("loss").by_loss] == ["inf", "nan"]
    assert again.for_group("loss").threshold == np.inf
    assert repr(again) == repr(found)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"kind": "shopping list"}')
    with pytest.raises(ValueError, match="shopping list"):
        tether.Selection.load(tmp_path / "x.json")


def test_a_selection_is_read_only():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.threshold = 0.0
    with pytest.raises(ValueError, match="read-only"):
        found.curve()[0][0] = 1


def test_the_curve_is_thinned_but_keeps_the_chosen_threshold():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    thresholds, risks = found.curve()
    assert len(thresholds) == 1001
    assert (np.diff(thresholds) > 0).all()
    assert risks[thresholds == found.threshold] == found.risk
    assert thresholds[-1] == np.inf


def test_the_common_attributes_of_results():
    """The names and types that a calibration has too."""
    for found in selections():
        for name in ("alpha", "bound", "risk", "promise", "stability", "effective_sample_size"):
            assert type(getattr(found, name)) is float or name in ("bound", "alpha")
        assert isinstance(found.statement, str)
        assert isinstance(found.exists, bool)
        assert found.summary() == str(found)
        assert np.isnan(found.stability) == (found.stability_detail is None)
        if found.stability_detail is not None:
            assert found.stability == found.stability_detail.epsilon


def test_the_curve_as_columns():
    pandas = pytest.importorskip("pandas")
    found = tether.gcrc(CLAIMS, alpha=0.2)
    frame = pandas.DataFrame(found.to_frame())
    assert list(frame.columns) == ["threshold", "risk", "kept"]
    np.testing.assert_array_equal(frame["threshold"], found.curve().threshold)
    np.testing.assert_array_equal(frame["risk"], found.curve().risk)
    np.testing.assert_array_equal(frame["kept"], found.curve_kept)


def test_encoded_values_are_decoded():
    found = tether.gcrc(CLAIMS, alpha=0.0001)
    assert found.threshold == np.inf
    encoded = records.encode(found.to_dict())
    assert encoded["threshold"] == "inf"
    assert repr(tether.Selection.from_dict(encoded)) == repr(found)


def test_incomplete_content_is_refused(tmp_path):
    content = tether.gcrc(CLAIMS, alpha=0.2).to_dict()
    del content["promise"]
    with pytest.raises(ValueError, match="not a complete selection: promise missing"):
        tether.Selection.from_dict(content)
    records.write(tmp_path / "found.json", "selection", content)
    with pytest.raises(ValueError, match=r"found\.json: content is not a complete selection"):
        tether.Selection.load(tmp_path / "found.json")
    with pytest.raises(TypeError, match="content must be a mapping, got list"):
        tether.Selection.from_dict([])


def test_a_promise_is_useful_if_it_says_something():
    assert tether.gcrc(CLAIMS, alpha=0.2).useful
    assert tether.gcrc(CLAIMS, promise=0.2).useful
    assert not tether.crc(CLAIMS, alpha=0.2).useful  # not monotone: nothing is promised
    assert not tether.gcrc(CLAIMS, alpha=0.0001).useful  # nothing passes
    assert not tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1e6).useful  # more than twice alpha
    assert tether.monotonized_crc(CLAIMS, alpha=0.2).useful
    assert tether.ltt(CLAIMS, alpha=0.2).useful
    halves = np.arange(600) % 2
    assert tether.gcrc(CLAIMS, alpha=0.2, groups=halves).useful
    assert not tether.crc(CLAIMS, alpha=0.2, groups=halves).useful
    both = tether.crc(CLAIMS, alpha=[0.5, 0.2], loss=["any_false", "fdr"])
    assert [part.useful for part in both.by_loss] == [True, False]
    assert not both.useful
    assert both.to_dict()["useful"] is False


def test_a_promise_that_says_nothing_is_not_presented_as_success():
    assert "promise     no useful promise: none: the losses" in str(tether.crc(CLAIMS, alpha=0.2))
    text = str(tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1e6))
    assert "no useful promise: expected mean over all items of the share" in text
    assert "(0 where nothing is shown) ≤ 1 (alpha 0.2 + " in " ".join(text.split())
    grouped = str(tether.crc(CLAIMS, alpha=0.2, groups=np.arange(600) % 2))
    assert grouped.count("no useful promise") == 1
    rows = [line.split() for line in grouped.splitlines() if line[:3] in ("  0", "  1")]
    assert [row[-1] for row in rows] == ["no", "no"]  # of the column "useful"
    assert "no useful promise" not in str(tether.gcrc(CLAIMS, alpha=0.2))
