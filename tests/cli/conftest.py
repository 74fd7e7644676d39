"""Commands run in a folder with tables; what they print is compared with files.

`pytest tests/cli --update-snapshots` writes these files anew.
"""

import logging
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs tether[cli]")
pytest.importorskip("pyarrow", reason="needs tether[cli]")
import pyarrow as pa
from pyarrow import csv, feather, parquet
from typer.testing import CliRunner

SNAPSHOTS = Path(__file__).parent / "snapshots"
CHANGING = (
    (r"SHA256:[\w+/]+", "(key)"),
    (r"\b[0-9a-f]{64}\b", "(digest)"),
)
"""What is different each time, and what stands in its place."""


def gaussian(rows, seed):
    """A log of a Gaussian policy whose mean moves up, where large actions harm."""
    a = np.random.default_rng(seed).normal(size=rows)
    return {"harm": 1.0 * (a > 1.5), "log_safe": -(a**2) / 2, "log_optimized": -((a - 1) ** 2) / 2}


def finite(rows, seed):
    """A log with contexts and tables of all three actions, and probabilities of those taken."""
    rng = np.random.default_rng(seed)
    where = rng.integers(2, size=rows)
    safe = np.log([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])[where]
    optimized = np.log([[0.2, 0.3, 0.5], [0.1, 0.2, 0.7]])[where]
    action = (rng.random(rows)[:, None] > np.exp(safe).cumsum(axis=1)).sum(axis=1)
    at = np.arange(rows), action
    tables = {f"log_safe_all_{k}": safe[:, k] for k in range(3)}
    tables |= {f"log_optimized_all_{k}": optimized[:, k] for k in range(3)}
    loss = 1.0 * (rng.random(rows) < np.array([0.02, 0.1, 0.3])[action])
    columns = {"place": where, "loss": loss, "sold": action * 1.0, "p": np.exp(safe[at])}
    columns |= {"q": np.exp(optimized[at]), "log_safe": safe[at]}
    return {**columns, **tables, "log_optimized": optimized[at]}


def claims(items, seed):
    """Scored claims of items, and whether each is true."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), 4)
    true = rng.random(len(item)) < 0.7
    score = np.clip(0.3 * true + 0.7 * rng.random(len(item)), 0, 1).round(6)
    return {"item": item, "score": score, "true": true, "kind": np.where(item % 2, "a", "b")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a table of each kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    table = pa.table(finite(600, 0))
    csv.write_csv(table, "log.csv")
    parquet.write_table(table, "log.parquet")
    feather.write_feather(table, "log.feather")
    Path("log.jsonl").write_text(
        "\n".join(str(row).replace("'", '"') for row in table.to_pylist()) + "\n"
    )
    Path("parts").mkdir()
    for k in range(3):
        parquet.write_table(table.slice(200 * k, 200), f"parts/{k}.parquet")
    csv.write_csv(pa.table(gaussian(400, 1)), "gauss.csv")
    csv.write_csv(pa.table(gaussian(25, 2)), "few.csv")
    cost = {"cost": np.random.default_rng(0).random(400) * 2}
    csv.write_csv(pa.table(gaussian(400, 1) | cost), "two.csv")
    csv.write_csv(pa.table(claims(300, 3)), "claims.csv")
    csv.write_csv(pa.table(claims(200, 4)), "new.csv")
    losses = 1.0 * (np.random.default_rng(5).random(2000) < 0.02)
    csv.write_csv(pa.table({"key": [f"k{n}" for n in range(2000)], "complaint": losses}), "old.csv")
    return tmp_path


@pytest.fixture
def tether(folder):
    """Run a command in the folder."""
    from tether.cli.app import app

    logger = logging.getLogger("tether")
    before = list(logger.handlers), logger.level
    yield lambda words: CliRunner().invoke(app, words.split() if isinstance(words, str) else words)
    logger.handlers[:], logger.level = before


@pytest.fixture
def transcript(tether, request, monkeypatch):
    """Run commands, and compare all that they print with a file of this name."""
    for module in ("sentences", "text"):
        monkeypatch.setattr(f"tether.view.{module}.format_time", lambda time: "(time)")

    def compare(name, *commands):
        lines = []
        for words in commands:
            found = tether(words)
            assert not isinstance(found.exception, Exception), found.exception
            code = f"(exit code {found.exit_code})\n" if found.exit_code else ""
            lines.append(f"$ tether {words}\n{found.output}{code}")
        text = "\n".join(lines)
        for pattern, word in CHANGING:
            text = re.sub(pattern, word, text)
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        path = SNAPSHOTS / f"{name}.txt"
        if request.config.getoption("--update-snapshots"):
            path.write_text(text)
        assert text == path.read_text(), f"pytest {request.node.nodeid} --update-snapshots"

    return compare
