"""Aiming from a pandas table with words, and with scikit-learn models, as `make_log` takes them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import tether
from tether.aiming import aimed_candidates, fit_loss

ITEMS = np.array(["wait", "mail", "call"])  # not in the order of a model's classes
SAFE = tether.Categorical.from_probabilities([0.4, 0.35, 0.25], actions=ITEMS)


def encoded(*words):
    """A model on a frame with these columns of words."""
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), list(words)), remainder="passthrough"
    )
    return make_pipeline(encode, LogisticRegression(max_iter=1000))


def visits(count, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"plan": rng.choice(["basic", "plus", "trial"], size=count), "age": rng.normal(size=count)}
    )
    item = SAFE.sample(count, rng)
    harm = np.where((table.plan == "trial") & (item == "call"), 0.6, 0.05)
    return table, pd.Series(item), pd.Series((rng.random(count) < harm).astype(float)), rng


TABLE, ITEM, HARM, RNG = visits(3000)
MODEL = encoded("plan").fit(TABLE, np.where(TABLE.age > 0, "call", "mail").astype(object))
NEW = tether.Categorical.from_classifier(MODEL, actions=np.sort(ITEMS))


def test_a_loss_model_is_fitted_on_a_frame_with_words_and_classifiers_as_policies():
    full = encoded("plan").fit(TABLE, ITEM)
    loss = fit_loss(TABLE, ITEM, HARM, rng=RNG, policies=(full, SAFE))
    case = pd.DataFrame({"plan": ["trial", "plus"], "age": [0.0, 0.0]})
    trial, plus = loss(case, np.array(["call", "call"]))
    assert trial == pytest.approx(0.6, abs=0.12)
    assert plus == pytest.approx(0.05, abs=0.06)
    np.testing.assert_allclose(loss.loss_table(case, ITEMS)[:, 2], [trial, plus])


def test_a_pipeline_on_a_frame_predicts_the_loss_of_each_action():
    """The column of the actions is the one that the contexts lack, or the user's own frame."""
    pipeline = encoded("plan", "item").fit(TABLE.assign(item=ITEM), HARM)
    by_hand = tether.aim(
        NEW,
        lambda c, a: pipeline.predict_proba(c.assign(item=a))[:, 1],
        TABLE,
        alpha=0.08,
    )
    found = tether.aim(NEW, pipeline, TABLE, alpha=0.08)
    framed = tether.aim(NEW, pipeline, TABLE, 0.08, features=lambda c, a: c.assign(item=a))
    assert found.multipliers[""] > 0
    assert by_hand.multipliers == found.multipliers == framed.multipliers
    with pytest.raises(ValueError, match="the result of features has 2 rows"):
        tether.aim(NEW, pipeline, TABLE, 0.08, features=lambda c, a: c.assign(item=a)[:2])


def test_a_column_without_numbers_is_named():
    model = LogisticRegression().fit(np.zeros((4, 3)) + np.arange(4)[:, None], [0, 1, 0, 1])
    with pytest.raises(TypeError, match=r"other values in plan; give features.*assign"):
        tether.aim(NEW, model, TABLE, alpha=0.08)


def test_candidates_may_have_the_actions_in_another_order():
    table, item, harm, rng = visits(600, 1)
    choice = tether.choose(
        aimed_candidates(NEW, alpha=0.1, temperatures=(1.0,), multiples=(1.0,)),
        safe=SAFE,
        contexts=table,
        actions=item,
        losses=harm,
        rewards=item == "call",
        alpha=0.1,
        rng=rng,
    )
    assert choice.estimates  # they were compared
    log = tether.make_log(SAFE, choice.policy, TABLE, ITEM, HARM)
    assert tether.calibrate(log, alpha=0.1, family=choice.family).exists
