"""A decision from a table: what it computes, what it says, what it refuses, and month two."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import multinomial

import tether
from tests.scale import scaled
from tether.control.chain import design

SEGMENTS, BANNERS = np.array(["new", "member"]), np.array(["discount", "plain", "upgrade"])
TODAY = np.array([[0.3, 0.5, 0.2], [0.3, 0.3, 0.4]])
NEW = np.array([[0.3, 0.1, 0.6], [0.05, 0.05, 0.9]])
LEAVES = np.array([[0.2, 0.15, 0.5], [0.15, 0.15, 0.1]])


def _rows(segments):
    return (np.asarray(segments) == "member").astype(int)


def new_rule(segments):
    return NEW[_rows(segments)]


def old_rule(segments):
    return TODAY[_rows(segments)]


def month(rows, rng, decision=None):
    segments = rng.choice(SEGMENTS, size=rows, p=[0.6, 0.4])
    table = pd.DataFrame({"segment": segments})
    if decision is None:
        chosen = (rng.random((rows, 1)) > old_rule(segments).cumsum(axis=1)).sum(axis=1)
        table["banner"] = BANNERS[chosen]
        table["p"] = old_rule(segments)[np.arange(rows), chosen]
    else:
        decided = decision.decide(table, rng)
        table["banner"], table["p"] = decided.actions, decided.propensities
    risk = LEAVES[_rows(segments), np.searchsorted(BANNERS, table.banner)]
    table["left"] = rng.random(rows) < risk
    table["revenue"] = rng.exponential(1 + 5 * risk)
    return table


ASKED = {"action": "banner", "loss": "left", "context": "segment", "propensity": "p"}
ASKED |= {"actions": BANNERS, "family": "clip"}  # the order of the columns of probabilities


def test_a_decision_is_the_calibration_of_the_same_rows():
    table = month(3000, np.random.default_rng(0))
    found = tether.decide(table, new=new_rule, promise=0.22, reward="revenue", **ASKED)
    both = [tether.Categorical.from_probabilities(rule, BANNERS) for rule in (old_rule, new_rule)]
    log = tether.make_log(*both, table.segment, table.banner, {"left": table.left})
    chain = tether.calibrate(log, promise=0.22, spread=True).chain
    assert np.array_equal(found.calibration.chain.shares, chain.shares)
    assert found.calibration.chain.spread
    first = " ".join(str(found).split())
    assert first.startswith("Follow the new policy in ")
    assert "left at most 22 % on average over logs like this one" in first
    assert "expected gain" in first


def test_the_old_policy_is_read_from_propensities_where_contexts_repeat():
    table = month(2000, np.random.default_rng(1))
    found = tether.decide(table, new=new_rule, promise=0.22, **ASKED)
    assert np.allclose(np.exp(found.old.log_prob_all(SEGMENTS)), TODAY, atol=1e-12)
    uniform = table.assign(banner=BANNERS[np.arange(2000) % 3])
    asked = {**ASKED, "propensity": 1 / 3, "cost": "revenue"}
    constant = tether.decide(uniform, new=new_rule, promise=0.3, **asked)
    more = table.assign(banner=BANNERS[np.arange(2000) % 2], p=0.6)  # than one, of two of the three
    with pytest.raises(ValueError, match="do not add up to 1"):
        tether.decide(more, new=new_rule, promise=0.3, **ASKED)
    assert np.allclose(np.exp(constant.old.log_prob_all(SEGMENTS)), 1 / 3)
    assert "-" not in str(constant).partition("cost, estimated")[2].split("]")[0]
    assert constant.next(month(200, np.random.default_rng(2), constant)).calibration.rows == 2200
    named = lambda segments: np.where(np.asarray(segments) == "new", "plain", "upgrade")  # noqa: E731
    found = tether.decide(table, new=named, promise=0.22, **ASKED)
    assert np.exp(found.new.log_prob_all(SEGMENTS)).tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="contexts"):
        found.decide(pd.DataFrame({"segment": ["visitor"]}), np.random.default_rng(0))


def test_without_the_old_policy_the_decision_is_a_share_of_the_cases():
    """What all betas of mix serve together is mix again, at the mean of their shares."""
    table = month(3000, np.random.default_rng(9)).assign(visit=np.arange(3000))  # none repeats
    asked = {**ASKED, "context": ["segment", "visit"], "promise": 0.22, "cost": "revenue"}
    del asked["family"]
    asked["new"] = lambda rows: new_rule(rows.segment)
    routed = tether.decide(table, **asked)
    assert f"choose in {100 * routed.share:.3g} % of the cases" in " ".join(str(routed).split())
    with pytest.raises(TypeError, match=f"old=.*{routed.share}"):
        routed.decide(table, np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"old=.*go on without new"):
        _ = tether.decide(table, **{**asked, "promise": 0.05}).policy
    served = tether.decide(table, family="mix", old=lambda rows: old_rule(rows.segment), **asked)
    mixed = (1 - served.share) * TODAY + served.share * NEW
    assert np.allclose(
        np.exp(served.policy.log_prob_all(table[:9])), mixed[_rows(table.segment[:9])]
    )
    assert 0.1 < routed.share <= served.share < 1
    labels = [each.get_text() for each in served.plot().axes[0].get_legend().texts]
    assert labels[1:] == ["old policy", "this decision", "new policy"]


def test_what_the_rows_happen_to_show_does_not_choose_the_rule():
    """Clip where all of the old policy was seen, and mix elsewhere, served more than is proved."""
    old, rule, loss = [0.9795, 0.0127, 0.0078], np.array([0.144, 0.82, 0.036]), np.array([0, 1, 0])
    asked = {"action": "a", "loss": "harm", "propensity": "p", "actions": [0, 1, 2]}
    asked |= {"promise": 0.0255, "new": lambda rows: np.tile(rule, (len(rows), 1))}
    served = {"clip": 0.0, "mix": 0.0}
    for counts in ((40 - k - j, k, j) for k in range(5) for j in range(4)):
        actions = np.repeat(np.arange(3), counts)
        table = {"a": actions, "p": np.take(old, actions), "harm": loss[actions]}
        chance = multinomial.pmf(counts, 40, old)
        share = tether.decide(table, **asked).share or 0.0
        served["mix"] += chance * ((1 - share) * old[1] + share * rule[1])
        if counts[1] == counts[2] == 0:
            with pytest.raises(ValueError, match="do not add up to 1"):
                tether.decide(table, family="clip", **asked)
            served["clip"] += chance * old[1]
        else:
            policy = tether.decide(table, family="clip", **asked).policy
            served["clip"] += chance * np.exp(policy.log_prob(np.zeros(1, dtype=int), [1]))[0]
    level, stake = design(40, 0.0255)
    assert max(served.values()) <= old[1] + (0.0255 - level) * np.exp(
        -stake * 40 * (old[1] - level)
    )


def test_month_two_pools_the_months_with_who_acted():
    rng = np.random.default_rng(2)
    rows, swapped = month(3000, rng), lambda segments: new_rule(segments)[:, ::-1]
    first = tether.decide(rows, new=new_rule, alpha=0.22, **ASKED)
    table = month(2000, rng, first)
    second = first.next(table)
    columns = zip(*((m.contexts, m.actions, m.losses["left"]) for m in second.months), strict=True)
    contexts, actions, left = map(np.concatenate, columns)
    who = {"logged_by": tether.Mixture([first.old, first.policy], [0.6, 0.4]), "safe_share": 0.6}
    log = tether.make_log(first.old, second.new, contexts, actions, {"left": left}, **who)
    assert second.calibration.log_beta == tether.calibrate(log, alpha=0.22).log_beta
    assert second.calibration.rows == 5000
    swapped = tether.Categorical.from_probabilities(swapped, BANNERS[::-1])
    first = tether.decide(rows, old=old_rule, new=swapped, alpha=0.22, **ASKED)
    other = first.next(table, new=new_rule)  # whose actions are not in the order of those before
    assert np.isclose(other.calibration.log_beta, second.calibration.log_beta, atol=1e-12)
    with pytest.raises(ValueError, match="propensities disagree"):
        first.next(month(500, rng))  # rows of the old policy, said to be those of the served one


def test_rows_of_a_rule_that_never_does_as_the_old_policy_take_nothing_away():
    """On all rows together no beta near the old policy passes: it has weights in the hundreds."""
    rng = np.random.default_rng(8)
    asked = {"new": lambda segments: np.full(len(segments), "plain"), **ASKED}
    for options in ({"promise": 0.25}, {"alpha": 0.25, "confidence": 0.9}):
        found = tether.decide(month(3000, rng), **options, **asked)
        for _ in range(2):
            found = found.next(month(2000, rng, found))
            assert found.calibration.log_beta == np.inf


RISKIER = lambda segments: np.full(len(segments), "upgrade")  # noqa: E731


@pytest.mark.slow
@pytest.mark.parametrize("new", [new_rule, RISKIER])
def test_month_two_keeps_its_promise_and_the_last_policy_as_safe_does_not_grow(new):
    """Mean risk of what is served in month three at a promise of 0.22; the safe risk is 0.187."""
    risks = []
    for seed in range(scaled(40)):
        rng = np.random.default_rng([3, seed])
        decision = tether.decide(month(600, rng), new=new, promise=0.22, **ASKED)
        decision = decision.next(month(600, rng, decision))
        served = np.exp(decision.policy.log_prob_all(SEGMENTS))
        risks.append((np.array([[0.6], [0.4]]) * served * LEAVES).sum())
    assert np.mean(risks) <= 0.22 + 3 * np.std(risks) / np.sqrt(len(risks))
    assert np.mean(risks) > 0.19  # something is served


def by_kind(frame):
    """A rule that fails, or decides otherwise, on columns of another type."""
    noted = np.array([value is not None for value in frame["note"]])
    return NEW[(frame["kind"].cat.codes.to_numpy() + noted) % 2]


def typed_month(rows, rng, decision=None):
    kind = pd.Categorical.from_codes(rng.integers(2, size=rows), ["new", "member"])
    note = np.array(["x", None], dtype=object)[rng.integers(2, size=rows)]
    table = pd.DataFrame({"kind": kind, "note": note, "banner": rng.choice(BANNERS, rows)})
    if decision is not None:
        table["banner"], _ = decision.decide(table, rng)
    return table.assign(left=rng.random(rows) < 0.1)


def test_a_saved_decision_serves_goes_on_and_refuses_another_model(tmp_path):
    rng = np.random.default_rng(4)
    uniform = tether.Categorical.from_probabilities(np.full(3, 1 / 3), BANNERS)
    asked = {"action": "banner", "loss": "left", "context": ["kind", "note"], "old": uniform}
    asked["actions"] = BANNERS
    found = tether.decide(typed_month(2000, rng), new=by_kind, promise={"left": 0.2}, **asked)
    found = found.next(typed_month(1000, rng, found))
    found.save(tmp_path)
    loaded = tether.load(tmp_path, allow_imports=[__name__])
    assert str(loaded) == str(found)
    third = typed_month(500, rng, loaded)
    here, there = (each.decide(third, np.random.default_rng(0)).actions for each in (found, loaded))
    assert np.array_equal(here, there)
    here, there = (each.next(third).calibration for each in (found, loaded))
    assert np.array_equal(here.chain.shares, there.chain.shares)
    with pytest.raises(ValueError, match="optimized"):
        tether.Tethered(loaded.old, loaded.old, loaded.calibration)
    unnamed = tether.decide(typed_month(500, rng), new=lambda x: by_kind(x), promise=0.3, **asked)
    with pytest.raises(tether.saving.CannotSaveError, match=r"policy\.new"):
        unnamed.save(tmp_path / "other.tether")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_no_says_what_would_help():
    table = month(2000, np.random.default_rng(6))
    for new, helps in ((new_rule, "a promise of"), (lambda x: ["plain"] * len(x), "guardrail")):
        below = tether.decide(table, new=new, promise=0.99 * table.left.mean(), **ASKED)
        assert ("Keep the old" in str(below), helps in below.advice) == (True, True)
    part = table[table.banner != "plain"]
    with pytest.warns(tether.AssumptionWarning, match="does not hold: the optimized policy"):
        lacking = tether.decide(part, new=new_rule, old=old_rule, promise=0.6, **ASKED)
    assert ("does not hold" in " ".join(str(lacking).split()), lacking.advice) == (True, "")
    assert np.allclose(lacking.policy.log_prob_all(SEGMENTS), np.log(TODAY))  # not the new policy


@pytest.mark.parametrize(("counts", "promise"), [((36, 18, 6), 0.12), ((40, 20, 0), 0.02)])
def test_a_no_where_only_propensities_are_known(counts, promise):
    rows = {"x": np.arange(60.0), "a": np.repeat([0, 1, 2], counts)}
    rows |= {"p": np.array([0.6, 0.3, 0.1])[rows["a"]], "bad": rows["a"] == 2}
    asked = {"action": "a", "loss": "bad", "propensity": "p", "context": "x", "actions": [0, 1, 2]}
    asked |= {"promise": promise, "confidence": 0.9, "min_propensity": 0.1}
    found = tether.decide(rows, new=lambda x: np.full(len(x), 2), **asked)
    assert (found.calibration.family, found.calibration.useful) == ("mix", False)
    assert "rows" in found.advice
    asked |= {"context": None, "min_propensity": 0.2}  # all rows alike show that 2 is rarer
    with pytest.raises(ValueError, match=r"min_propensity is 0\.2, but the old policy"):
        tether.decide(rows, new=lambda x: np.full(len(x), 2), **asked)
    if counts[2] == 0:  # of what the old policy never takes, the worst is assumed
        new, asked["min_propensity"], asked["promise"] = [0.9, 0.09, 0.01], None, 0.4
        asked |= {"confidence": None, "new": lambda x: np.tile(new, (len(x), 1))}
        found = tether.decide(rows | {"p": rows["p"] / 0.9}, **asked)
        mixed = (1 - found.share) * np.array([2 / 3, 1 / 3, 0]) + found.share * np.array(new)
        assert np.allclose(np.exp(found.policy.log_prob_all(np.zeros(1, int))), mixed)


WRONG = [
    ({"loss": "gone"}, ValueError, "loss"),
    ({"action": "gone"}, ValueError, "action"),
    ({"context": ["gone"]}, ValueError, "context"),
    ({"propensity": None}, TypeError, "propensity"),
    ({"propensity": "revenue"}, ValueError, "propensities"),
    ({"loss": "revenue"}, ValueError, "bound"),
    ({"reward": "revenue", "cost": "revenue"}, TypeError, "cost"),
    ({"new": 3}, TypeError, "new"),
    ({"promise": None}, TypeError, "promise"),
    ({"loss": "holes"}, ValueError, "'holes'.*missing"),
    ({"loss": "unknown"}, ValueError, "'unknown'.* is missing"),
    ({"new": lambda segments: "plain"}, ValueError, "vector or a table"),
    ({"loss": "segment"}, TypeError, "numbers"),
    ({"loss": np.zeros(50)}, TypeError, "the name of a column"),
    ({"actions": None}, ValueError, "actions="),
    ({"actions": ["none", *BANNERS]}, ValueError, r"shape \(50, 3\)"),
]


@pytest.mark.parametrize(("changed", "error", "named"), WRONG)
def test_wrong_arguments_are_named(changed, error, named):
    table = month(50, np.random.default_rng(7)).assign(holes=[np.nan] + [0.0] * 49)
    table["unknown"] = pd.array([pd.NA] + [True] * 49)
    arguments = {"new": new_rule, "promise": 0.22, **ASKED, **changed}
    with pytest.raises(error, match=named):
        tether.decide(table, **arguments)


@pytest.mark.parametrize("frame", [dict, pa.table])
def test_a_number_beside_words_stays_a_number(frame):
    rows = {"age": np.arange(400) % 90, "ward": np.tile(["a", "b"], 200), "left": np.zeros(400)}
    rows["act"], asked = rows["age"] % 4 < 2, {"action": "act", "loss": "left", "propensity": 0.5}
    seen = []
    new = lambda cases: (seen.append(cases[71].tolist()), cases[:, 0] > 50)[1]  # noqa: E731
    tether.decide(frame(rows), new=new, promise=0.2, context=["age", "ward"], **asked)
    assert seen[0] == [71, "b"]


@pytest.mark.parametrize(("values", "dtype", "context"), [
    ([2**60 + 1, 2**60 + 2, None, 5], "Int64", ["level"]),
    (["low", "high", None, "mid"], "string", ["level"]),
    (["low", "high", None, "mid"], "string", "level"),
    ([True, False, None, True], "boolean", "level"),
])  # fmt: skip
def test_what_pandas_calls_missing_is_a_context_like_any_other(values, dtype, context, tmp_path):
    level, rng = pd.array(values * 500, dtype=dtype), np.random.default_rng(0)
    acts = rng.random(2000) < 0.5
    table = pd.DataFrame({"level": level, "act": acts, "bad": rng.random(2000) < 0.1})
    asked = {"action": "act", "loss": "bad", "propensity": 0.5, "promise": 0.2, "context": context}
    new = tether.Categorical.from_probabilities([0.1, 0.9], actions=[False, True])
    made = tether.decide(table, new=new, **asked)
    made.save(tmp_path / "decision")
    for decision in (made, tether.load(tmp_path / "decision")):
        for rows in (table, table[table.level.notna()]):  # some without any missing value
            assert len(decision.decide(rows, rng).actions) == len(rows)
