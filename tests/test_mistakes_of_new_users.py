"""Plausible mistakes: each error names the argument, shows the value and says what is accepted."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import tether

RNG = np.random.default_rng(0)
N = 200
FRAME = pd.DataFrame(
    {
        "loss": RNG.random(N),
        "log_safe": -RNG.random(N),
        "log_optimized": -RNG.random(N),
        "ward": RNG.choice(["a", "b"], N),
    }
)
LOG = tether.Log(0.1 * RNG.random(N), -RNG.random(N), -RNG.random(N))
SAFE = tether.Categorical.from_probabilities([0.5, 0.5], ["a", "b"])
NEW = tether.Categorical.from_probabilities([0.2, 0.8], ["a", "b"])
CLAIMS = tether.Claims(RNG.random(40), RNG.random(40) < 0.7, np.arange(0, 41, 4))
A_FRAME = "got a DataFrame with the columns"

MISTAKES = {
    "a frame without losses": (
        lambda: tether.Log.from_frame(FRAME.drop(columns="loss"), context=None),
        "loss: there is no column 'loss'; the frame has",
    ),
    "contexts not stated": (
        lambda: tether.Log.from_frame(FRAME),
        r"context must be stated.*\['ward'\]",
    ),
    "an array for a frame": (
        lambda: tether.Log.from_frame(FRAME.to_numpy(), context=None),
        "frame must have named columns, got ndarray",
    ),
    "a lazy frame": (
        lambda: tether.Log.from_frame(pl.from_pandas(FRAME).lazy(), context=None),
        "LazyFrame cannot be read by column; if it is lazy, collect it first",
    ),
    "an empty table": (
        lambda: tether.Log.from_frame(FRAME.iloc[:0], context=None),
        "log_safe is empty",
    ),
    "losses as text": (
        lambda: tether.Log(["a"] * 3, [0.0] * 3, [0.0] * 3),
        "loss must hold real numbers, got .* 'a'",
    ),
    "one word among numbers": (
        lambda: tether.Log([0.1, "none", 0.2], [0.0] * 3, [0.0] * 3),
        r"loss must hold real numbers, got .*value 1 is 'none'",
    ),
    "probabilities for log-probabilities": (
        lambda: tether.calibrate(tether.Log(*RNG.random((3, N))), alpha=0.1),
        "log_safe must hold log-probabilities, .* take their logarithm",
    ),
    "columns in another order": (
        lambda: tether.Log(FRAME.log_safe, FRAME.loss, FRAME.log_optimized),
        r"loss\[0\] is -0\..*: expected a finite loss of at least 0",
    ),
    "a frame with one column": (
        lambda: tether.Log(FRAME[["loss"]], FRAME.log_safe, FRAME.log_optimized),
        r"loss must have 1 dimension\(s\), got shape \(200, 1\): pass the column itself",
    ),
    "a frame for a log": (
        lambda: tether.calibrate(FRAME, alpha=0.1),
        "log must be a tether.Log, got DataFrame; tether.Log.from_frame makes one",
    ),
    "alpha in percent": (
        lambda: tether.calibrate(LOG, alpha=10),
        r"alpha must be above 0 and below 1, got 10 \(10 % is 0.1\)",
    ),
    "confidence in percent": (
        lambda: tether.calibrate(LOG, alpha=0.2, confidence=95),
        r"confidence must be above 0 and below 1, got 95 \(95 % is 0.95\)",
    ),
    "alpha as text": (lambda: tether.calibrate(LOG, alpha="0.1"), "alpha must be a number, got '0"),
    "alpha by position": (
        lambda: tether.calibrate(LOG, 0.1),
        "proposals must be tether.Proposals, got 0.1; alpha and promise are passed by name",
    ),
    "a frame for proposals": (
        lambda: tether.calibrate(LOG, FRAME, alpha=0.1),
        f"proposals must be tether.Proposals, {A_FRAME}",
    ),
    "neither alpha nor promise": (lambda: tether.calibrate(LOG), "give exactly one of alpha"),
    "a family that is misspelled": (
        lambda: tether.calibrate(LOG, alpha=0.2, family="clp"),
        "family must be 'clip', .* got 'clp'",
    ),
    "a frame for a policy": (
        lambda: tether.make_log(FRAME, NEW, None, ["a"], [0]),
        f"safe must be a policy .*{A_FRAME}",
    ),
    "a class for a policy": (
        lambda: tether.make_log(tether.Categorical, NEW, None, ["a"], [0]),
        r"safe must be a policy, not a class: write Categorical\(…\)",
    ),
    "an unknown action": (
        lambda: tether.make_log(SAFE, NEW, None, ["c"], [0]),
        r"actions\[0\] is 'c': expected one of 'a', 'b'",
    ),
    "actions and losses swapped": (
        lambda: tether.make_log(SAFE, NEW, None, FRAME.loss, FRAME.ward),
        r"actions\[0\] is 0\.\d+: expected one of 'a', 'b'",
    ),
    "contexts of other rows": (
        lambda: tether.make_log(SAFE, NEW, FRAME.iloc[:3], FRAME.ward, FRAME.loss),
        "actions has 200 rows but contexts has 3",
    ),
    "a seed for a generator": (lambda: SAFE.sample(3, 0), "rng must be a numpy.random.Generator"),
    "beta as text": (lambda: tether.Tethered(SAFE, NEW, "0.5"), "beta must be a number .* '0.5'"),
    "arguments of Tethered swapped": (
        lambda: tether.Tethered(0.5, SAFE, NEW),
        "safe must be a policy .* got 0.5",
    ),
    "probabilities in percent": (
        lambda: tether.Categorical.from_probabilities([50, 50]),
        "probabilities must sum to 1, got a sum of 100",
    ),
    "probabilities without logarithm": (
        lambda: tether.Categorical([0.5, 0.5]),
        "not to 1: for probabilities use Categorical.from_probabilities",
    ),
    "a classifier that is not fitted": (
        lambda: tether.Categorical.from_classifier(LogisticRegression()),
        r"classifier must be fitted .* got LogisticRegression\(\)",
    ),
    "a mean as text": (lambda: tether.Gaussian("0"), "mean must hold real numbers, got '0'"),
    "one weight for two policies": (
        lambda: tether.Mixture([SAFE, NEW], 0.5),
        r"weights must have 1 dimension\(s\), got the single value 0.5",
    ),
    "a frame of losses with text": (lambda: tether.gcrc(FRAME, alpha=0.1), "got a frame with"),
    "a table for a column of scores": (
        lambda: tether.Claims.from_table(FRAME, "loss", "ward"),
        r"scores must be one column, got a table with the columns \['loss', .*table\['loss'\]",
    ),
    "a table of claims with a digit in a name": (
        lambda: tether.gcrc(FRAME.rename(columns={"loss": "llama33"}), promise=0.1),
        "of a table of claims take tether.Claims.from_table",
    ),
    "columns of different lengths": (
        lambda: tether.Claims.from_table([0.1, 0.2], [0, 1], ["a", "b", "c"]),
        "items has 3 rows but the other columns have 2",
    ),
    "an answer of more claims than the limit": (
        lambda: tether.gcrc(
            tether.Claims.from_table([0.1, 0.2, 0.3], [0, 1, 1], ["a", "b", "b"]),
            [0.1, 0.2],
            promise=0.3,
            loss=tether.FalseAmongShown(0.3, most_claims=1),
        ),
        "most_claims = 1, but 1 of 2 items have more, item 'b' 2: name the largest",
    ),
    "claims in percent": (lambda: tether.gcrc(CLAIMS, alpha=5), r"alpha .* got 5 \(5 % is 0.05\)"),
    "a loss that is misspelled": (
        lambda: tether.gcrc(CLAIMS, alpha=0.2, loss="fpr"),
        "loss must be one of 'fdr'.* got 'fpr'",
    ),
    "labels as words": (
        lambda: tether.Claims([0.1, 0.2], ["yes", "no"], [0, 2]),
        "supported must hold booleans, or 0 and 1, got .*'yes'",
    ),
    "an item that is missing": (
        lambda: tether.Claims.from_table([0.1, 0.2], [1, 0], ["a", None]),
        r"items\[1\] is missing \(None",
    ),
    "a number for a selection": (
        lambda: tether.filter_claims(0.5, [0.1]),
        "selection must be a Selection .* got 0.5",
    ),
    "a frame that draws rows": (
        lambda: tether.Shortlist(FRAME, NEW, size=4),
        f"safe must draw actions, {A_FRAME}",
    ),
    "a frame for a loss model": (
        lambda: tether.aim(NEW, FRAME, 3, 0.1),
        f"loss_model must be a function .*{A_FRAME}",
    ),
    "guardrails without names": (
        lambda: tether.Release("sqlite://", guardrails=0.1),
        "guardrails must map names to tolerances, got 0.1",
    ),
    "a guardrail in percent": (
        lambda: tether.Release("sqlite://", guardrails={"error": 10}),
        r"guardrails\['error'\]: alpha must be above 0 and below 1, got 10",
    ),
    "a policy that cannot be saved": (
        lambda: tether.save_policy(FRAME, "policy.tether"),
        "policy is a pandas.DataFrame, which is not known to tether",
    ),
    "losses that are missing": (
        lambda: tether.monitor.RiskMonitor(alpha=0.1).update([np.nan]),
        r"losses\[0\] is nan: expected a finite loss",
    ),
}


@pytest.mark.filterwarnings("ignore:Determining the column names")  # of polars' lazy frame
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_is_wrong(mistake):
    call, message = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        call()
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


@pytest.fixture
def taken():
    run = tether.Controller(tether.Gaussian(0.0), store="sqlite://", alpha=0.2)
    yield run, run.begin().act(300, RNG)
    run.close()


def test_what_act_returned_stands_for_its_ids(taken):
    run, actions = taken
    run.observe(actions, np.zeros(300))
    assert len(run.pending()) == 0


def test_mistakes_in_observations(taken):
    run, actions = taken
    for ids, losses, message in [
        (FRAME, np.zeros(300), f"ids must be integers returned by `act`, {A_FRAME}"),
        (
            actions.actions,
            np.zeros(300),
            r"ids must be integers .* shape \(300,\) of dtype float64",
        ),
        (actions, np.zeros(3), "losses has 3 rows but ids has 300"),
        (actions, ["a"] * 300, "losses must hold real numbers"),
        (actions, np.full(300, 50.0), r"losses\[0\] is 50.0: expected a loss of at most bound = 1"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message) as raised:
            run.observe(ids, losses)
        assert len(str(raised.value)) < 300


SCORED = LogisticRegression().fit(FRAME[["loss"]], FRAME.ward)
THREE = tether.Categorical.from_probabilities([0.5, 0.3, 0.2], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tether.Log([0.1, np.nan], [0.0, 0.0], [0.0, 0.0]), "count a missing loss as"),
        (
            lambda: tether.make_log(
                None, NEW, None, ["a"] * 30, np.zeros(30), propensities=np.full(30, 40.45)
            ),
            r"at most 1 \(40 % is 0.4; the largest is 40.45\)",
        ),
        (lambda: tether.calibrate(tether.Log([50.0], [0.0], [0.0]), alpha=0.1), "a larger bound="),
        (
            lambda: tether.calibrate(tether.Log([100.0], [0.0], [0.0]), alpha=0.1),
            "at most bound = 1; if 100 is a percentage, divide by 100; only if losses can be",
        ),
        (
            lambda: tether.make_log(SAFE, SCORED.predict_proba, FRAME[["loss"]], FRAME.ward, LOG),
            "pass the model itself, not its predict_proba",
        ),
        (
            lambda: tether.calibrate(
                tether.make_log(
                    None, THREE, np.arange(30), ["a"] * 30, np.zeros(30),
                    propensities=np.full(30, 0.5),
                ),
                alpha=0.1,
            ),
            "use family='mix', or pass the safe policy",
        ),
        (
            lambda: tether.Tethered(None, NEW, tether.calibrate(
                tether.Log(np.zeros(90), np.zeros(90), np.zeros(90), max_ratio=1.0),
                alpha=0.1, family="mix",
            )),
            "give the optimized policy a share of 1 of the requests",
        ),
        (lambda: tether.Claims([0.1, 0.2], ["yes", "no"], [0, 2]), "as in column == 'yes'"),
        (lambda: tether.Claims([0.1, 0.2], pd.Series(["True", "x"]), [0, 2]), "such as 'True'"),
    ],
)  # fmt: skip
def test_further_mistakes_are_explained(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_mix_states_its_share_of_the_traffic():
    found = tether.calibrate(LOG, tether.Proposals([-1.0], [-0.9]), alpha=0.2, family="mix")
    assert found.optimized_share == pytest.approx(tether.Mix().optimized_share(found.log_beta))
    assert f"{100 * found.optimized_share:.4g} % of the decisions are the optimized" in str(found)
    assert tether.calibrate(LOG, alpha=0.2).optimized_share is None


def test_losses_in_money_ask_for_their_bound():
    log = tether.Log(np.linspace(0, 4000, 50), np.full(50, -1.0), np.full(50, -1.0))
    with pytest.raises(ValueError, match=r"losses go up to 4000.*as bound="):
        tether.calibrate(log, promise=150)
    with pytest.raises(ValueError, match="at most bound = 1000") as raised:
        tether.calibrate(log, promise=150, bound=1000)
    assert "percentage" not in str(raised.value)


def test_a_regressor_is_told_how_it_becomes_a_policy():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError, match=r"Categorical\.from_logits"):
        tether.make_log(None, LinearRegression(), [1], [0], [0.0], propensities=[0.5])


def test_a_classifier_without_probabilities_is_told_how_it_gets_them():
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC, LinearSVC

    fitted = LinearSVC().fit([[0.0], [1.0]], [0, 1])
    for model in (LinearSVC(), SVC(), fitted, make_pipeline(LinearSVC())):
        with pytest.raises(TypeError, match=r"predicts a class.*CalibratedClassifierCV"):
            tether.make_log(None, model, [[1.0]], [0], [0.0], propensities=[0.5])
        with pytest.raises(TypeError, match="CalibratedClassifierCV"):
            tether.Categorical.from_classifier(model)


def test_a_model_that_lacks_actions_is_told_how_it_gets_them():
    rng = np.random.default_rng(0)
    x, items = rng.normal(size=(400, 1)), rng.integers(6, size=400)
    model = LogisticRegression().fit(x[items < 4], items[items < 4])
    given = {"propensities": np.full(400, 1 / 6), "min_propensity": 1 / 6}
    lacking = int((items >= 4).sum())
    message = (
        rf"is \d: expected one of 0, 1, 2, 3, which are all 4 actions of the optimized policy. It "
        rf"lacks 4, 5, in {lacking} of 400 rows.*from_classifier\(model, actions=all_actions\)"
    )
    with pytest.raises(ValueError, match=message):
        tether.make_log(None, model, x, items, np.zeros(400), **given)
    safe = tether.Categorical.from_probabilities(np.full(6, 1 / 6))
    with pytest.raises(ValueError, match=r"2 of the 6 of safe.*from_classifier\(model, actions="):
        tether.make_log(safe, model, x, items, np.zeros(400))
    full = tether.Categorical.from_classifier(model, actions=np.arange(6))
    log = tether.make_log(None, full, x, items, np.zeros(400), **given)
    assert (np.isneginf(log.log_optimized) == (items >= 4)).all()
    assert tether.make_log(safe, full, x, items, np.zeros(400)).log_optimized_all.shape == (400, 6)


def test_actions_in_another_case_are_told_to_be_written_alike():
    with pytest.raises(ValueError, match=r"lacks 'A ', in 1 of 2 rows. Some differ by upper"):
        tether.make_log(SAFE, NEW, None, ["b", "A "], [0, 0])


def test_a_frame_of_losses_is_told_to_be_a_mapping():
    frame = pd.DataFrame({"left": [0, 1], "late": [1, 0]})
    with pytest.raises(ValueError, match=r"columns 'left', 'late': .*mapping.*dict\(frame\)"):
        tether.make_log(SAFE, NEW, None, ["a", "b"], frame)
    assert set(tether.make_log(SAFE, NEW, None, ["a", "b"], dict(frame)).loss) == {"left", "late"}


def test_one_case_as_a_dictionary_is_told_to_be_a_frame_of_one_row():
    policy = tether.Categorical.from_probabilities(
        lambda rows: np.full((len(rows), 2), 0.5), actions=[0, 1]
    )
    with pytest.raises(TypeError, match=r"pandas\.DataFrame\(\[case\]\)"):
        policy.sample({"age": 40, "region": "north"}, np.random.default_rng(0))


def test_a_log_of_the_tethered_policy_is_told_whose_it_is():
    rng = np.random.default_rng(0)
    safe = tether.Categorical.from_probabilities([[0.5, 0.5]], actions=[0, 1])
    served = tether.Categorical.from_probabilities([[0.2, 0.8]], actions=[0, 1])
    contexts = np.zeros(200, dtype=int)
    actions = served.sample(contexts, rng)
    propensities = np.exp(served.log_prob(contexts, actions))
    with pytest.raises(ValueError, match="pass the tethered policy as safe"):
        tether.make_log(safe, served, contexts, actions, np.zeros(200), propensities=propensities)
