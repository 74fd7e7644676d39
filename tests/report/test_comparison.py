"""`tether.compare`: several results as one table."""

import numpy as np
import pytest

import tether

RNG = np.random.default_rng(3)
SCORES = RNG.random(600)
CLAIMS = tether.Claims(SCORES, RNG.random(600) < SCORES, np.arange(0, 601, 3))
METHODS = (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt)


def calibrations(alphas=(0.05, 0.1, 0.2), rewards=False):
    rng = np.random.default_rng(0)
    actions = rng.normal(size=500)
    reward = {"reward": actions} if rewards else {}
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2, **reward)
    return [tether.calibrate(log, alpha=alpha) for alpha in alphas]


def test_one_row_per_calibration():
    found = calibrations()
    table = tether.compare(found).to_frame()
    assert table["name"].tolist() == ["alpha 0.05", "alpha 0.1", "alpha 0.2"]
    for name in ("beta", "log_beta", "risk", "promise", "useful", "effective_sample_size"):
        assert table[name].tolist() == [getattr(each, name) for each in found]
    assert "reward" not in table
    rewarded = calibrations(rewards=True)
    table = tether.compare(rewarded).to_frame()
    means = [each.saved_gain.reward.difference.mean for each in rewarded]
    np.testing.assert_array_equal(table["gained"], np.array(means, dtype=float))


def test_one_row_per_selection():
    found = [method(CLAIMS, alpha=0.2) for method in METHODS]
    compared = tether.compare(found)
    assert compared.names == ("gCRC", "CRC", "monotonized CRC", "LTT")
    table = compared.to_frame()
    assert table["threshold"].tolist() == [each.threshold for each in found]
    assert table["kept"].tolist() == [each.kept.share for each in found]
    matrix = tether.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2)
    assert np.isnan(tether.compare([matrix]).to_frame()["kept"]).all()


def test_results_are_named_by_what_differs():
    both = [method(CLAIMS, alpha=alpha) for method in METHODS[:2] for alpha in (0.1, 0.2)]
    assert tether.compare(both).names == (
        "gCRC, alpha 0.1",
        "gCRC, alpha 0.2",
        "CRC, alpha 0.1",
        "CRC, alpha 0.2",
    )
    sure = [tether.ltt(CLAIMS, alpha=0.2, confidence=c) for c in (0.9, 0.99)]
    assert tether.compare(sure).names == ("confidence 0.9", "confidence 0.99")
    assert tether.compare(both[:1] * 2).names == ("1", "2")
    assert tether.compare([both[0], both[0], both[1]]).names == (
        "1: alpha 0.1",
        "2: alpha 0.1",
        "3: alpha 0.2",
    )
    promised = [tether.gcrc(CLAIMS, promise=0.2), both[1]]
    assert tether.compare(promised).names == ("promise 0.2", "alpha 0.2")
    named = tether.compare({"mine": both[0], "yours": both[1]})
    assert named.names == ("mine", "yours")


def test_printing_shows_the_table_and_warns_against_choosing_afterwards():
    text = str(tether.compare(calibrations()))
    assert text.startswith("3 calibrations, ")
    assert "the same in all  family clip" in text
    assert "chosen before its data were seen" in " ".join(text.split())
    none = str(tether.compare(calibrations(alphas=(0.001, 0.002))))
    assert none.startswith("2 calibrations, none of them with a useful promise")
    assert [row.split()[5] for row in none.splitlines() if row.startswith("  alpha 0.00")] == [
        "none",
        "none",
    ], "where nothing passes, nothing is promised"


def test_other_things_are_refused():
    with pytest.raises(ValueError, match="results is empty"):
        tether.compare([])
    with pytest.raises(TypeError, match=r"calibrations or selections, as .* got float"):
        tether.compare([0.5])
    with pytest.raises(TypeError, match="got both"):
        tether.compare([tether.gcrc(CLAIMS, alpha=0.2), *calibrations()])


def test_every_result_of_a_mapping_has_a_name_of_its_own():
    low, high = calibrations(alphas=(0.05, 0.1))
    assert tether.compare({None: low, "high": high}).names == ("None", "high")
    with pytest.raises(ValueError, match="two entries with the name '1'"):
        tether.compare({1: low, "1": high})
    for alone in (low, None):
        with pytest.raises(TypeError, match=r"must be a list or a mapping of .*, got"):
            tether.compare(alone)


def _of_two_families():
    rng = np.random.default_rng(0)
    safe, optimized = np.array([0.6, 0.4]), np.array([0.1, 0.9])
    action, context = (rng.random(800) < safe[1]).astype(int), rng.integers(2, size=800)
    policies = [tether.Categorical.from_probabilities(each) for each in (safe, optimized)]
    losses = rng.random(800) < 0.05 + 0.1 * action
    log = tether.make_log(*policies, context, action, losses, rewards=action)
    return {family: tether.calibrate(log, alpha=0.12, family=family) for family in ("clip", "mix")}


def test_families_are_compared_by_what_changes_and_by_traffic():
    found = _of_two_families()
    compared = tether.compare(found)
    table = compared.to_frame()
    assert table["changed"].tolist() == [each.saved_gain.changed.mean for each in found.values()]
    assert np.isnan(table["traffic"][0])
    assert table["traffic"][1] == found["mix"].optimized_share
    assert "different scales" in str(compared)
    assert "different scales" not in str(tether.compare(calibrations()))
    assert "traffic" not in tether.compare(calibrations()).to_frame()


def test_a_confidence_is_told_apart_from_a_promise_on_average():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=500)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2)
    settings = {"alpha": 0.2, "family": "mix", "test_weight": 20.0}
    compared = tether.compare(
        [tether.calibrate(log, **settings), tether.calibrate(log, **settings, confidence=0.9)]
    )
    assert compared.names == ("on average", "confidence 0.9")
    np.testing.assert_array_equal(compared.to_frame()["confidence"], [np.nan, 0.9])


def test_several_losses_have_a_column_each():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=500)
    losses = {"harm": actions > 1.5, "delay": actions > 1.8}
    log = tether.Log(losses, -(actions**2) / 2, -((actions - 1) ** 2) / 2)
    found = [tether.calibrate(log, alpha=alpha) for alpha in (0.1, 0.2)]
    compared = tether.compare(found)
    table = compared.to_frame()
    for name in losses:
        assert table[f"promise[{name}]"].tolist() == [each.promises[name] for each in found]
        assert table[f"risk[{name}]"].tolist() == [each.risks[name] for each in found]
    assert not {"promise", "risk", "alpha"} & set(table)
    assert "promise[delay]" in str(compared)
