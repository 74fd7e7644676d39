"""Claims, groups, the record of a result, and filtering by it."""

import json
import warnings

import numpy as np
import pandas
import polars
import pytest

import tether
from tether import AssumptionWarning, PromiseWarning
from tether.thresholds import crc, sweep
from tether.thresholds.methods import METHODS

RNG = np.random.default_rng(6)
SIZES = RNG.integers(0, 6, 400)
SCORES = RNG.random(SIZES.sum())
CLAIMS = tether.Claims(SCORES, RNG.random(len(SCORES)) < SCORES, np.append(0, np.cumsum(SIZES)))
GROUPS = np.where(RNG.random(400) < 0.7, "large", "middle")
GROUPS[np.flatnonzero(SIZES)[:3]] = "tiny"
LOSSES = ["fdr", "any_false"]
FRAME = {
    "score": SCORES,
    "supported": CLAIMS.supported,
    "item": np.array([f"q{i:03d}" for i in CLAIMS.owner]),
    "group": GROUPS[CLAIMS.owner],
}


@pytest.mark.parametrize("make", [dict, pandas.DataFrame, polars.DataFrame])
def test_a_table_in_any_order_is_the_same_claims(make):
    order = RNG.permutation(len(SCORES))
    frame = make({name: np.asarray(column)[order] for name, column in FRAME.items()})
    claims = tether.Claims.from_frame(frame, groups="group")
    shown = np.flatnonzero(SIZES)
    assert claims.n_items == len(shown)
    assert claims.groups == {f"q{i:03d}": GROUPS[i] for i in shown}
    same = tether.gcrc(CLAIMS.take(shown), alpha=0.2)
    found = tether.gcrc(claims, alpha=0.2, groups={name: "all" for name in claims.groups})
    assert found.for_group("all").threshold == same.threshold
    with pytest.raises(ValueError, match="groups must be a mapping"):
        tether.gcrc(claims, alpha=0.2, groups=GROUPS[shown])
    with pytest.raises(ValueError, match="there is no column 'x'"):
        tether.Claims.from_frame(frame, scores="x")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"scores": [0.1, np.nan]}, {"items": ["a", "a"], "offsets": [0, 1, 2]}),
        *({"supported": each} for each in ([1, 2], ["yes", "no"], [1, 0, 1])),
        *({"offsets": each} for each in ([0, 1], [0.0, 2.0])),
    ],
)
def test_bad_claims(wrong):
    right = {"scores": [0.1, 0.2], "supported": [1, 0], "offsets": [0, 2]}
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        tether.Claims(**{**right, **wrong})


@pytest.mark.parametrize(
    "option",
    [
        *({"alpha": 1.5}, {"alpha": [0.1, 0.2]}, {"bound": 0.5}, {"loss": "other"}, {"seed": 3}),
        *({"thresholds": [0.5, 0.4]}, {"thresholds": 0.5}, {"groups": ["a"]}, {"test_weight": 2.0}),
        *({"weights": -np.ones(400)}, {"weights": np.ones(3)}),
        {"test_weight": 0.5, "weights": np.ones(400)},
    ],
)
def test_bad_arguments(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        tether.gcrc(CLAIMS, **{"alpha": 0.1, **option})


def test_tables_that_look_wrong_are_told_of():
    with pytest.warns(AssumptionWarning, match="at least twice"):
        tether.Claims.from_frame({name: np.tile(column, 2) for name, column in FRAME.items()})
    single = tether.Claims.from_frame({**FRAME, "item": np.arange(len(SCORES))})
    for claims, message in (
        (tether.Claims(-SCORES, CLAIMS.supported, CLAIMS.offsets), "inverted"),
        (tether.Claims(SCORES, np.zeros(len(SCORES)), CLAIMS.offsets), "are these the labels"),
        (tether.Claims.from_frame(FRAME, groups="group"), "groups=claims.groups"),
        (single, "exactly one claim"),
    ):
        with pytest.warns(AssumptionWarning, match=message):
            tether.gcrc(claims, alpha=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tether.gcrc(tether.Claims.from_frame(FRAME), alpha=0.2)


@pytest.mark.parametrize("method", list(METHODS))
def test_each_group_on_its_own(method):
    found = METHODS[method](CLAIMS, alpha=0.2, groups=GROUPS)
    for name in ("large", "middle"):
        alone = METHODS[method](CLAIMS.take(np.flatnonzero(name == GROUPS)), alpha=0.2)
        assert found.for_group(name).threshold == alone.threshold
        assert found.for_group(name).statement == alone.statement
    assert "tiny" in found.refused_groups
    assert not found.for_group("tiny").exists
    assert found.threshold == max(part.threshold for part in found.groups.values())
    assert not found.useful
    assert found.serves == (method != "crc")
    with pytest.raises(ValueError, match="'small' was not calibrated"):
        found.for_group("small")


@pytest.mark.parametrize("method", list(METHODS))
def test_a_saved_selection_is_the_same_and_a_changed_file_is_refused(method, tmp_path):
    found = METHODS[method](CLAIMS, alpha=0.2, groups=GROUPS, loss=LOSSES)
    found.save(tmp_path / "found.json")
    loaded = tether.Selection.load(tmp_path / "found.json")
    assert str(loaded) == str(found)
    assert json.dumps(loaded.to_dict(), default=str) == json.dumps(found.to_dict(), default=str)
    text = (tmp_path / "found.json").read_text().replace('"alpha": 0.2', '"alpha": 0.1')
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match="changed"):
        tether.Selection.load(tmp_path / "other.json")


def test_next_to_nothing_kept_is_not_useful():
    scores = np.append(np.full(4999, 0.5), 0.9)
    claims = tether.Claims(scores, np.append(np.arange(4999) % 2, 1), np.arange(5001))
    found = tether.gcrc(claims, alpha=0.1)
    assert found.exists
    assert found.threshold == 0.9
    assert not found.useful
    assert "next to nothing" in found.warnings[0]


def test_filtering_keeps_what_reaches_the_threshold():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    assert (tether.filter_claims(found, SCORES) == (found.threshold <= SCORES)).all()
    assert tether.filter_claims(found, []).size == 0
    grouped = tether.gcrc(CLAIMS, alpha=0.2, groups=GROUPS)
    names = GROUPS[CLAIMS.owner]
    with pytest.warns(PromiseWarning, match="no useful promise"):
        kept = tether.filter_claims(grouped, SCORES, groups=names)
    assert not kept[names == "tiny"].any()
    own = names == "large"
    assert (kept[own] == (grouped.for_group("large").threshold <= SCORES[own])).all()
    with pytest.raises(ValueError, match="groups"):
        tether.filter_claims(grouped, SCORES)
    with pytest.raises(ValueError, match="groups"):
        tether.filter_claims(found, SCORES, groups=names)
    with pytest.raises(TypeError, match="selection"):
        tether.filter_claims(0.5, SCORES)
    refused = crc(CLAIMS, alpha=0.2)
    with pytest.warns(PromiseWarning, match="no useful promise"):
        assert not tether.filter_claims(refused, SCORES).any()
    missing = tether.gcrc(CLAIMS.take(range(3)), alpha=0.05, loss="miss")
    with pytest.warns(PromiseWarning, match="all of the"):
        assert tether.filter_claims(missing, SCORES).all()


@pytest.mark.parametrize("items", [None, CLAIMS.owner])
def test_other_scores_than_those_of_the_calibration_are_told_of(items):
    """Naming the items hides no warning."""
    found = tether.gcrc(CLAIMS, alpha=0.2)
    for other in (100 * SCORES, np.append(SCORES[1:], 3.0), SCORES - 0.8):
        with pytest.raises(ValueError, match="another scale"):
            tether.filter_claims(found, other, items=items)
    with pytest.warns(AssumptionWarning, match="more than chance explains"):
        tether.filter_claims(found, SCORES**4, items=items)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tether.filter_claims(found, SCORES, items=items)


@pytest.mark.parametrize("method", list(METHODS))
def test_a_sweep_and_losses_by_name_stand_for_the_losses(method):
    swept = sweep(CLAIMS)
    one, other = (METHODS[method](each, alpha=0.2) for each in (swept, CLAIMS))
    assert (one.threshold, one.statement) == (other.threshold, other.statement)
    named = {"share": swept, "any": sweep(CLAIMS, loss="any_false")}
    levels = {"share": 0.1, "any": 0.3}
    one = METHODS[method](named, alpha=levels)
    other = METHODS[method](CLAIMS, loss=LOSSES, alpha=[0.1, 0.3])
    assert (one.threshold, one.promise) == (other.threshold, other.promise)
    assert [part.loss for part in one.by_loss] == ["share", "any"]
    alone = [METHODS[method](each, alpha=levels[name]) for name, each in named.items()]
    if method != "chain":  # which draws
        assert one.threshold == max(each.threshold for each in alone)
    with pytest.raises(ValueError, match="weights cannot be passed with a sweep"):
        tether.gcrc(swept, alpha=0.2, weights=np.ones(400))
    with pytest.raises(TypeError, match="got a Sweep"):
        METHODS[method](swept, alpha=0.2, groups=GROUPS)
    with pytest.raises(ValueError, match="opposite ends"):
        METHODS[method](CLAIMS, alpha=0.1, loss=["fdr", "miss"])


def test_the_curve_is_a_table_of_each_loss_or_group():
    for options, first in (({}, None), ({"groups": GROUPS}, "group"), ({"loss": LOSSES}, "loss")):
        table = tether.gcrc(CLAIMS, alpha=0.2, **options).to_frame()
        assert list(table) == [*([] if first is None else [first]), "threshold", "risk", "kept"]
        own = slice(None) if first is None else table[first] == table[first][0]
        assert (np.diff(table["threshold"][own]) > 0).all()
        assert (np.diff(table["kept"][own]) <= 0).all()
        scores = SCORES if first != "group" else SCORES[GROUPS[CLAIMS.owner] == table[first][0]]
        known = [(scores >= each).mean() for each in table["threshold"][own]]
        np.testing.assert_allclose(table["kept"][own], known)
