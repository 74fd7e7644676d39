"""A saved selection that contradicts itself is refused, and no true one is."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control import forged_records as forged
from tether._core import records

LEVELS = {"alpha": 0.2, "promise": 0.25}


def claims(seed, items=60):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, items)
    scores = np.round(rng.random(counts.sum()), 2)
    return tether.Claims(
        scores, rng.random(len(scores)) < 0.3 + 0.7 * scores, offsets=np.append(0, counts.cumsum())
    )


def through_json(found):
    plain = json.loads(json.dumps(records.encode(found.to_dict()), allow_nan=False))
    assert repr(tether.Selection.from_dict(plain)) == repr(found)
    return plain


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    items=st.integers(3, 60),
    level=st.floats(0.02, 0.8),
    target=st.sampled_from(["alpha", "promise"]),
    loss=st.sampled_from(["fdr", "any_false", "miss", ["fdr", "any_false"]]),
    grouped=st.booleans(),
)
def test_no_selection_of_random_claims_is_refused(seed, items, level, target, loss, grouped):
    made = claims(seed, items)
    groups = {"groups": np.arange(items) % 2} if grouped else {}
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        try:
            found = method(made, loss=loss, **{target: level}, **groups)
        except ValueError:  # what the method does not do, such as several losses by promise
            continue
        through_json(found)


def test_groups_of_which_one_keeps_nothing_and_another_has_no_threshold_are_not_refused():
    for method in (tether.gcrc, tether.ltt):
        found = method(
            claims(612, 3), loss=["fdr", "any_false"], alpha=0.75, groups=np.arange(3) % 2
        )
        through_json(found)
    assert not found.exists
    assert [part.exists for part in found.by_loss] == [False, False]


def test_no_selection_of_other_losses_is_refused():
    rng = np.random.default_rng(0)
    matrix = rng.random((80, 7)) * np.linspace(1, 0.1, 7)
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        through_json(method(matrix, alpha=0.4))
    through_json(tether.gcrc(matrix, alpha=0.4, lipschitz=2.0))
    through_json(tether.gcrc(matrix, alpha=0.4, measure_stability=False))
    through_json(tether.gcrc(matrix, alpha=0.4, weights=rng.random(80)))
    labels = tether.ScoredLabels(rng.random(200), rng.random(200) < 0.7)
    for loss in ("false_positive", "false_negative"):
        for method in (tether.gcrc, tether.crc, tether.ltt):
            through_json(method(labels, loss=loss, alpha=0.3))
    through_json(tether.gcrc(labels, np.linspace(0, 0.9, 10), loss="false_discovery", alpha=0.35))


FORGERIES = [
    ("method", "magic"), ("threshold", 0.0), ("threshold", "nan"), ("exists", False),
    ("exists", 3), ("risk", 0.9), ("risk", 0.0), ("risk", "nan"), ("alpha", -1.0), ("alpha", "nan"),
    ("alpha", 0.01), ("alpha", 2.0), ("bound", 0.0), ("bound", "inf"), ("promise", 0.01),
    ("promise", "nan"), ("promise", 7.0), ("statement", "expected loss ≤ 0.001"), ("statement", 3),
    ("loss", 3), ("safer", "both"), ("n_items", 0), ("n_items", 2.5),
    ("effective_sample_size", 1e9), ("effective_sample_size", -1.0), ("n_candidates", 0),
    ("monotone", "yes"), ("n_nonmonotone", -1), ("stability_term", 0.3), ("stability_term", -1.0),
    ("existence_term", 0.5), ("safe_loss", 0.9), ("safe_error", "x"), ("target", 0.01),
    ("target", 3.0), ("curve_risks", []), ("curve_thresholds", []), ("useful", False),
    ("stability", 5.0), ("stability_detail", {"epsilon": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), FORGERIES)
def test_what_contradicts_the_rest_is_refused(name, value, tmp_path):
    found = tether.gcrc(claims(0, 200), promise=0.3)
    assert found.useful
    found.save(tmp_path / "found.json")
    entries = forged.entries_of(tmp_path / "found.json")
    assert entries[name] != value
    (tmp_path / "forged.json").write_text(json.dumps(entries | {name: value}))
    with pytest.raises(ValueError, match=r"forged.json: the content does not have the digest"):
        tether.Selection.load(tmp_path / "forged.json")
    made = forged.with_digest(entries | {name: value})
    (tmp_path / "forged.json").write_text(json.dumps(made))
    with pytest.raises(ValueError, match=r"forged.json: "):
        tether.Selection.load(tmp_path / "forged.json")


def test_groups_and_losses_belong_together():
    made = claims(1, 80)
    grouped = through_json(tether.gcrc(made, alpha=0.4, groups=np.arange(80) % 2))
    for name, value in (("threshold", 0.01), ("risk", 0.1), ("promise", 0.1), ("n_items", 800)):
        with pytest.raises(ValueError, match=rf"{name} is .*but the groups give"):
            tether.Selection.from_dict(grouped | {name: value})
    several = through_json(tether.monotonized_crc(made, alpha=0.5, loss=["fdr", "any_false"]))
    for name, value in (("promise", 0.01), ("risk", 0.01), ("bound", 9.0), ("loss", "miss")):
        with pytest.raises(ValueError, match=r"are those of none of the losses|above 0 and below"):
            tether.Selection.from_dict(several | {name: value})
    several["by_loss"][0]["threshold"] = several["by_loss"][0]["curve_thresholds"][0]
    with pytest.raises(ValueError):
        tether.Selection.from_dict(several)


WRONG = (None, True, -1, 10**400, "x", [], {"a": 1}, [1, "a"])


def test_the_numbers_that_define_a_share_of_what_is_shown_are_checked():
    loss, grid = tether.FalseAmongShown(0.3, most_claims=5), np.linspace(0, 0.5, 6)
    plain = through_json(tether.gcrc(claims(0, 200), grid, promise=0.3, loss=loss))
    assert plain["settings"] == {"share": 0.3, "most_claims": 5}
    for settings_ in (*WRONG, {}, {"share": 0.3}, {"share": 0.2, "most_claims": 5}):
        with pytest.raises(ValueError, match=r"settings|content"):
            tether.Selection.from_dict(plain | {"settings": settings_})
    for value in (*WRONG, 2.5, 0):
        changed = {"share": 0.3, "most_claims": value}
        with pytest.raises(ValueError, match=r"settings must have the share 0\.3"):
            tether.Selection.from_dict(plain | {"settings": changed})


@pytest.mark.parametrize("name", ["n_items", "threshold", "warnings", "kept", "stability_detail"])
def test_an_entry_of_another_type_is_a_value_error(name):
    plain = through_json(tether.gcrc(claims(0, 200), promise=0.3))
    for value in WRONG:
        with contextlib.suppress(ValueError):
            str(tether.Selection.from_dict(plain | {name: value}))
        if isinstance(plain[name], dict):
            for own in plain[name]:
                with contextlib.suppress(ValueError):
                    str(tether.Selection.from_dict(plain | {name: plain[name] | {own: value}}))
