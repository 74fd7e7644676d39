"""Files of every format make the same log, and what is saved and drawn is there."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import tether as package
from tests.cli.conftest import finite, gaussian

FORMATS = ("log.csv", "log.parquet", "log.feather", "log.jsonl", "parts", "parts/*.parquet")


def found(tether, words):
    result = tether(f"calibrate {words} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize("path", FORMATS)
@pytest.mark.parametrize("rule", ["--alpha 0.2", "--promise 0.2"])
def test_every_format_gives_the_calibration_of_the_arrays(tether, path, rule):
    made = found(tether, f"{path} {rule} --context place --reward sold")
    columns = finite(600, 0)
    log = package.Log.from_frame(columns, context="place", reward="sold")
    name, value = rule[2:].split()
    expected = package.calibrate(log, **{name: float(value)})
    assert made["log_beta"] == pytest.approx(expected.log_beta, abs=1e-9)
    assert made["losses"]["loss"]["risk"] == pytest.approx(expected.binding.risk, abs=1e-9)


@pytest.mark.parametrize("path", ["log.csv", "parts"])
def test_probabilities_stand_for_their_logarithms(tether, path):
    logs = found(tether, f"{path} --alpha 0.2 --context place --family mix")
    names = "--propensity p --probability q --log-safe x --log-optimized y"
    other = found(tether, f"{path} --alpha 0.2 --context place --family mix {names}")
    assert other["log_beta"] == pytest.approx(logs["log_beta"], abs=1e-9)
    bounded = found(tether, "log.csv --alpha 0.2 --family mix --context place --min-propensity 0.1")
    assert bounded["log_beta"] <= logs["log_beta"] + 1e-9


def test_missing_losses_are_an_error_or_count_as_the_worst_case(tether):
    columns = gaussian(400, 1)
    missing = [None if k % 50 == 0 else each for k, each in enumerate(columns["harm"].tolist())]
    csv.write_csv(pa.table({**columns, "harm": missing}), "gaps.csv")
    words = "calibrate gaps.csv --loss harm --no-context --alpha 0.2"
    refused = tether(words)
    assert refused.exit_code == 2
    assert "missing" in refused.output
    counted = tether(f"{words} --missing worst_case --json")
    assert "8 losses of 'harm' are missing and count as 1" in counted.stderr
    filled = np.where(np.arange(400) % 50 == 0, 1.0, columns["harm"])
    log = package.Log(filled, columns["log_safe"], columns["log_optimized"])
    beta = package.calibrate(log, alpha=0.2).log_beta
    assert json.loads(counted.stdout)["log_beta"] == pytest.approx(beta, abs=1e-9)


def test_what_is_saved_loads_and_what_is_drawn_is_a_picture(tether):
    pytest.importorskip("matplotlib", reason="needs tether[plot]")
    pytest.importorskip("cryptography", reason="needs tether[signing]")
    assert tether("keygen mine").exit_code == 0
    result = tether("calibrate log.csv --alpha 0.2 --out a.json --key mine.key --plot a.png")
    assert result.exit_code == 0, result.output
    assert package.Calibration.load("a.json", key="mine.pub").exists
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert tether("calibrate log.csv --alpha 0.2 --out a.json").exit_code == 2, "it exists"
    assert tether("calibrate log.csv --alpha 0.2 --out a.json --force").exit_code == 0


def test_claims_that_are_kept_are_those_of_the_selection(tether):
    words = "threshold claims.csv --score score --label true --item item --alpha 0.1 --out a.json"
    assert tether(words).exit_code == 0
    selection = package.Selection.load("a.json")
    assert tether("filter new.csv --threshold a.json --score score --out kept.csv").exit_code == 0
    scores = np.array(csv.read_csv("new.csv")["score"])
    kept = np.array(csv.read_csv("kept.csv")["score"])
    assert np.array_equal(kept, scores[package.filter_claims(selection, scores)])


def test_keys_and_losses_of_a_release_in_files(tether):
    pytest.importorskip("sqlalchemy", reason="needs tether[runs]")
    keys = [f"u{k}" for k in range(300)]
    csv.write_csv(pa.table({"key": keys}), "keys.csv")
    tether("release start r.db --guardrail complaint=0.05 --old old.csv")
    lines = tether("release assign r.db --file keys.csv").output.split()
    assert lines[0] == "key,system"
    systems = [line.split(",")[1] for line in lines[1:]]
    rows = {"key": keys, "system": systems, "complaint": [None, *[0.0] * 299]}
    csv.write_csv(pa.table(rows), "losses.csv")
    for count in (299, 0):  # a file may be given again
        told = tether("release observe r.db --file losses.csv").output
        assert told == f"{count} new losses stored.\n"
    csv.write_csv(pa.table({"key": keys, "complaint": [1.0] * 300}), "other.csv")
    assert tether("release observe r.db --file other.csv").exit_code == 2
    assert tether("release observe r.db --file other.csv --keep-first").exit_code == 0
    status = json.loads(tether("status r.db --json").output)
    assert sum(status["units"][0]["rows"].values()) == 300
    assert systems.count("new") == status["units"][0]["rows"]["new"]


def test_a_labelled_table_goes_into_the_store_of_a_gateway(tether):
    for name in ("starlette", "msgspec", "openai", "sqlalchemy"):
        pytest.importorskip(name, reason="needs tether[serve,api]")
    from tests.llm.chat_server import ChatServer

    rows = [("Where?", "Here."), ("When?", "Soon."), ("Who?", "We.")] * 10
    prompts, answers = zip(*rows, strict=True)
    harm = [float(k % 5 == 0) for k in range(30)]
    csv.write_csv(pa.table({"prompt": prompts, "answer": answers, "harm": harm}), "chats.csv")
    with ChatServer(lambda body, rng: str(rng.integers(9))) as server:
        Path("judge.py").write_text("def longer(asked, given):\n    return [0.0] * len(given)\n")
        Path("gateway.toml").write_text(
            f"""
[gateway]
store = "gateway.db"
candidates = 3
controller = {{ promise = 0.4 }}
old = {{ url = "{server.url}", model = "small" }}
scorer = "judge-1"
scorers.judge-1.function = "judge:longer"
"""
        )
        result = tether("record gateway.toml chats.csv --loss harm")
        assert result.exit_code == 0, result.output
        assert len(server.requests) == 3, "equal prompts share a request"
    status = json.loads(tether("status gateway.db --json").output)
    assert status["units"][0]["rows"] == {"old": 30, "new": 0}
    assert status["units"][0]["means"]["old"]["loss"]["mean"] == pytest.approx(np.mean(harm))
    assert "already holds rows" in tether("record gateway.toml chats.csv --loss harm").output
