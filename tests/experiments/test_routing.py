"""The routing experiment in small: five splits of the real prompts."""

import csv
import os
from pathlib import Path

import pytest
from experiments.routing import __main__ as routing
from experiments.routing import aimed

DATA = Path(os.environ.get("TETHER_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = DATA / "routellm_two_model" / "routellm_two_model.parquet"
pytestmark = pytest.mark.skipif(not FILE.exists(), reason=f"no prompts at {FILE}")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("routing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TETHER_DATA", str(DATA))
        routing.main(["--quick", "--out", str(folder)])
    return folder


def rows(out, name):
    with (out / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def found(out):
    """Share and risk by method and alpha."""
    return {
        (row["method"], row["alpha"]): {key: float(row[key] or "nan") for key in list(row)[2:9]}
        for row in rows(out, "routing")
    }


@pytest.mark.parametrize("alpha", ["0.01", "0.02", "0.05"])
@pytest.mark.parametrize("method", ["clip", "mix", "budgeted_clip(8)", "no router"])
def test_risk_holds_with_contexts(found, method, alpha):
    row = found[method, alpha]
    assert row["risk"] <= float(alpha) + 3 * row["risk_error"]
    assert row["share"] > 0.03  # more than the safe policy sends


@pytest.mark.parametrize("method", ["clip, subject", "aimed, words", "aimed"])
def test_risk_holds_for_what_aims(out, method):
    found = {(row["method"], row["alpha"]): row for row in rows(out, "aimed")}
    for alpha in ("0.01", "0.02", "0.05"):
        row = found[method, alpha]
        assert float(row["risk"]) <= float(alpha) + 3 * float(row["risk_error"])
    assert float(found[method, "0.05"]["share"]) > 0.2


def test_always_cheap_is_aimed_at_a_threshold_of_the_predicted_loss():
    import numpy as np

    chances = np.random.default_rng(0).uniform(0, 0.5, 2000)
    models = aimed.LossModels(aimed.PromptLoss(chances), aimed.PromptLoss(chances))
    settings = {"aim_multiple": 2.0, "aim_temperature": 0.01}
    policy = aimed.aim_always_cheap(models, 0.02, settings)
    cheap = np.exp(policy.log_prob_all(np.arange(2000))[:, 0])
    assert np.mean(cheap * chances) == pytest.approx(0.04, rel=0.02)
    assert cheap[chances < 0.15].min() > 0.99  # 0.04 is spent at a threshold of 0.2
    assert cheap[chances > 0.25].max() < 0.01


@pytest.mark.parametrize("alpha", ["0.01", "0.02", "0.05"])
def test_the_marginal_formula_breaks_alpha(found, alpha):
    row = found["marginal", alpha]
    assert row["risk"] > float(alpha) + 3 * row["risk_error"]


def test_the_router_is_worth_its_traffic(found):
    assert found["clip", "0.05"]["share"] > found["mix", "0.05"]["share"]
    assert found["mix", "0.05"]["share"] > found["no router", "0.05"]["share"]


def test_a_safe_policy_that_is_not_safe_stays_as_it_is(out):
    """At 10 % cheap answers the safe policy's risk is near 0.019: no beta exists at 0.01."""
    for row in rows(out, "exploration"):
        if row["safe_cheap"] == "0.1" and row["alpha"] == "0.01":
            assert float(row["safe_only"]) == 1
            assert float(row["share"]) == pytest.approx(0.1)


def test_repeats_of_a_prompt_stay_together():
    import numpy as np

    number = np.array([0, 1, 2, 1, 3, 0, 4, 5])
    prompts = routing.Prompts(number, np.array(["x"] * 8), np.ones((8, 2), dtype=bool))
    parts = prompts.split([2, 2], np.random.default_rng(0))
    kept = [set(part.number.tolist()) for part in parts]
    assert set.union(*kept) == set(range(6))
    assert sum(map(len, kept)) == 6
    assert sum(len(part.number) for part in parts) == 8


def test_every_result_is_written(out):
    for name in (
        "routing.svg",
        "exploration.svg",
        "aimed.svg",
        "benchmarks.csv",
        "curves.csv",
        "run.txt",
    ):
        assert (out / name).stat().st_size > 100
