import dataclasses
import json

import numpy as np
import pytest

import tether

RNG = np.random.default_rng(11)
SCORES = RNG.random(3000)
CLAIMS = tether.Claims(SCORES, RNG.random(3000) < SCORES, np.arange(0, 3001, 5))


def selections():
    yield tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1.5)
    yield tether.crc(CLAIMS, alpha=0.2, weights=RNG.random(600))
    yield tether.ltt(CLAIMS, alpha=0.2, delta=0.05)
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
    for one, two in zip(again.curve(), found.curve(), strict=True):
        np.testing.assert_array_equal(one, two)
    kept = tether.Selection.from_dict(found.to_dict())
    assert repr(kept) == repr(found)


def test_plain_values_go_through_json():
    for found in selections():
        again = tether.Selection.from_dict(json.loads(json.dumps(found.to_dict())))
        assert repr(again) == repr(found)
        assert str(again) == str(found)


def test_words_that_look_like_numbers_or_entries_stay_words(tmp_path):
    losses = {"inf": np.zeros((60, 2)), "nan": np.ones((60, 2))}
    groups = np.repeat(["nan", "loss", "inf"], [25, 34, 1])
    found = tether.gcrc(losses, [1, np.inf], alpha=0.1, groups=groups)
    found.save(tmp_path / "found.json")
    again = tether.Selection.load(tmp_path / "found.json")
    assert again.pooled == ("inf",)
    assert [part.loss for part in again.for_group("loss").parts] == ["inf", "nan"]
    assert again.for_group("loss").threshold == np.inf
    assert repr(again) == repr(found)


def test_where_nothing_passes_the_safest_given_threshold_stands():
    bad = tether.Claims(np.full(40, 0.5), np.zeros(40), range(41))
    assert tether.gcrc(bad, alpha=0.01).threshold == np.inf
    assert tether.gcrc(bad, [0.1, 0.4], alpha=0.1).threshold == 0.4
    assert tether.gcrc(bad, [0.1, 0.4], alpha=0.01, loss="miss").threshold == 0.1
    assert tether.gcrc(bad, alpha=0.01, loss="miss").threshold == -np.inf
    both = tether.gcrc({"a": np.ones((40, 2)), "b": np.zeros((40, 2))}, [0.2, 0.7], alpha=0.1)
    assert (both.exists, both.threshold) == (False, 0.7)


def test_a_lipschitz_constant_is_never_ignored_in_silence():
    with pytest.raises(ValueError, match="lipschitz = 2 needs the stability"):
        tether.gcrc(CLAIMS, alpha=0.2, lipschitz=2, stability=False)
    data = tether.ScoredLabels(SCORES, SCORES > 0.5)
    for reason, found in {
        "weighted": tether.gcrc(CLAIMS, alpha=0.2, lipschitz=2, weights=np.ones(600)),
        "several": tether.gcrc(CLAIMS, alpha=0.5, lipschitz=2, loss=["fdr", "any_false"]),
        "a share": tether.gcrc(data, [0.6, 0.7], alpha=0.5, lipschitz=2),
        "a stream": tether.gcrc(iter([np.zeros((30, 2))]), alpha=0.5, lipschitz=2),
    }.items():
        assert f"is not used: no stability is measured for {reason}" in found.warnings[-1]


def test_another_file_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"kind": "shopping list"}')
    with pytest.raises(ValueError, match="shopping list"):
        tether.Selection.load(tmp_path / "x.json")


def test_it_cannot_be_changed():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.threshold = 0.0
    with pytest.raises(ValueError, match="read-only"):
        found.curve()[0][0] = 1


def test_the_summary_says_what_matters():
    text = str(tether.gcrc(CLAIMS, alpha=0.2, lipschitz=1.5))
    assert "gCRC: keep what scores at least 0." in text
    assert "600 items, 3,001 candidates" in text
    assert "not monotone in the threshold" in text
    assert "(alpha + K·epsilon, with epsilon estimated from these items)" in text
    assert "one item replaced moves the threshold by" in text
    text = str(tether.gcrc(CLAIMS, alpha=0.001))
    assert "no threshold passes at alpha 0.001" in text
    assert "warning" in text
    text = str(tether.crc(CLAIMS, alpha=0.2, weights=1 + RNG.random(600)))
    assert "effective sample size" in text
    assert "CRC's guarantee does not hold" in text
    text = str(tether.gcrc(CLAIMS, alpha=0.2, groups=[0] * 597 + [1] * 3))
    assert "gCRC: one threshold a group" in text
    assert "group       0: keep" in text
    assert "pooled      1" in text
    text = str(tether.ltt(CLAIMS, alpha=0.2))
    assert "delta 0.1, procedure fixed_sequence" in text


def test_a_monotone_loss_is_promised_alpha():
    for method in (tether.gcrc, tether.crc):
        found = method(CLAIMS, alpha=0.5, loss="any_false")
        assert found.monotone
        assert found.guarantee.startswith("expected loss ≤ 0.5, for exchangeable items")
    weighted = tether.gcrc(CLAIMS, alpha=0.5, loss="any_false", weights=np.ones(600))
    assert "exchangeable after weighting" in weighted.guarantee


def test_crc_names_the_items_at_fault():
    claims = tether.Claims([0.9, 0.8, 0.9, 0.8, 0.9, 0.9], [1, 0, 0, 1, 0, 0], [0, 2, 4, 5, 6])
    found = tether.crc(claims, alpha=0.5)
    assert (found.faults, found.faulty) == (1, (1,))
    assert "the loss 'fdr' of 1 of 4 items falls" in found.warnings[0]
    assert "(items 1)" in found.warnings[0]
    assert found.guarantee == "none: the losses are not monotone in the threshold"


def test_only_infinity_passes():
    claims = tether.Claims(np.ones(30), np.zeros(30), range(31))
    found = tether.gcrc(claims, alpha=0.1)
    assert found.exists
    assert found.threshold == np.inf
    assert found.warnings == ("only +inf passes: nothing is kept",)


def test_the_curve_is_thinned_but_keeps_the_chosen_threshold():
    found = tether.gcrc(CLAIMS, alpha=0.2)
    thresholds, risks = found.curve()
    assert len(thresholds) == 1001
    assert (np.diff(thresholds) > 0).all()
    assert risks[thresholds == found.threshold] == found.risk
    assert thresholds[-1] == np.inf


def test_a_sweep_shows_itself():
    swept = tether.risk.sweep(CLAIMS, envelope=False)
    assert repr(swept) == "Sweep(loss='fdr', items=600, candidates=3001, monotone=False)"
    with pytest.raises(ValueError, match="envelope=False"):
        tether.monotonized_crc(swept, alpha=0.1)
    assert swept.risks(conservative=False)[-1] == pytest.approx(
        1 - CLAIMS.supported.reshape(600, 5).mean()
    )


@pytest.mark.parametrize(
    "arguments",
    [{"thresholds": [0.5]}, {"loss": "fdr"}, {"bound": 2.0}, {"weights": np.ones(600)}],
)
def test_a_sweep_is_settled(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name} cannot be given with a sweep"):
        tether.gcrc(tether.risk.sweep(CLAIMS), alpha=0.2, **arguments)
