"""Which family a plan is for, and what it says that it does not model."""

import numpy as np
import pytest

import tether


def log_with(**more):
    rows = 40
    losses = np.arange(rows) % 10 == 0
    return tether.Log(losses, np.full(rows, -1.0), np.full(rows, -1.1), **more)


TABLES = {
    "log_safe_all": np.log([[np.exp(-1.0), 1 - np.exp(-1.0)]] * 40),
    "log_optimized_all": np.log([[np.exp(-1.1), 1 - np.exp(-1.1)]] * 40),
}


@pytest.mark.parametrize(
    ("log", "family", "named", "words"),
    [
        (None, None, "clip", None),
        (log_with(), None, "clip", None),
        (log_with(context=np.arange(40)), None, "budgeted_clip", "planned as clip"),
        (log_with(**TABLES), None, "clip", None),
        (log_with(**TABLES), "budgeted_clip(4)", "budgeted_clip", "planned as clip"),
        (log_with(**TABLES), "mix", "mix", None),
        (log_with(context=np.arange(40)), "mix", "mix", None),
        (log_with(), "budgeted_clip(4)", "budgeted_clip", "planned as clip"),
    ],
)
def test_the_default_is_that_of_calibrate_and_what_is_not_modelled_is_said(
    log, family, named, words
):
    given = {} if log is not None else {"safe_risk": 0.1}
    made = tether.plan(log, alpha=0.2, family=family, **given)
    assert made.family == named
    assert f"beta of the family {named})" in " ".join(made.summary().split())
    if words is None:
        assert made.not_modelled is None
    else:
        assert words in made.not_modelled
        assert words in " ".join(made.summary().split())


def test_a_plan_from_figures_says_that_it_takes_contexts_to_be_alike():
    made = tether.plan(log_with(**TABLES), alpha=0.2, safe_risk=0.1)
    assert "spread alike in all" in made.not_modelled
    assert "spread alike in all" in " ".join(made.summary().split())


def test_families_that_no_plan_models_are_refused():
    with pytest.raises(ValueError, match="family must be 'clip' or 'mix' in a plan, got 'token"):
        tether.plan(alpha=0.2, safe_risk=0.1, family="token_clip")
    with pytest.raises(ValueError, match="family"):
        tether.plan(alpha=0.2, safe_risk=0.1, family="clop")
    with pytest.raises(ValueError, match="max_ratio must be"):
        tether.plan(alpha=0.2, safe_risk=0.1, max_ratio=0.5)


def propensity_log(rows=400, **stated):
    """A model that takes one action, which the safe policy takes in a quarter of the rows."""
    rng = np.random.default_rng(0)
    wanted = rng.random(rows) < 0.25
    loss = (rng.random(rows) < np.where(wanted, 0.1, 0.01)).astype(float)
    scores = np.log(np.where(wanted, 0.25, 0.75)), np.where(wanted, 0.0, -np.inf)
    return tether.Log(loss, *scores, context=np.arange(rows), **stated)


def test_a_log_of_propensities_alone_is_planned_as_mix():
    log = propensity_log(max_ratio=4.0)
    made = tether.plan(log, promise=0.08)
    assert made.family == "mix"
    assert made == tether.plan(log, promise=0.08, family="mix")


def test_clip_is_not_planned_where_the_optimized_policy_never_takes_many_actions():
    with pytest.raises(ValueError, match=r"never takes the actions of 7\d\.\d% of its rows"):
        tether.plan(propensity_log(max_ratio=4.0), promise=0.08, family="clip")


def test_a_plan_of_mix_says_whether_the_log_passes_and_how_far_rows_can_take_it():
    log = propensity_log(4000, max_ratio=4.0)
    made = tether.plan(log, promise=0.05)
    found = tether.calibrate(log, promise=0.05, family="mix")
    assert made.log_rows == 4000
    assert made.beta_of_log == found.beta > 0
    assert made.beta_limit > max(beta for _, beta in made.betas)
    text = " ".join(str(made).split())
    assert text.startswith("plan: the 4,000 rows of this log pass already")
    assert f"beta {found.beta:.4g} ({found.optimized_share:.1%} of the decisions" in text
    with_few = tether.plan(propensity_log(60, max_ratio=4.0), promise=0.12)
    assert with_few.beta_of_log == 0
    assert "60 rows do not pass" in str(with_few)
    assert "pass already" not in str(with_few)
