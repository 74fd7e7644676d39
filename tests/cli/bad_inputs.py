"""Bad inputs of every command: files, stores, and values of options."""

import contextlib
import gzip
import json
import random
import sqlite3
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import tether

ROWS = 60

VALUES = [
    "", " ", "nan", "inf", "-inf", "NaN", "1e308", "-1e308", "5e-324", "1e400", "-1", "0", "-0",
    "1", "2", "0.5", "0.1", "1e-300", str(2**63), str(2**70), str(-(2**70)), "9" * 5000, "0x10",
    "1_000", "½", "٣", "1,5", "1e", "\x1b[31m", "\x1b]0;title\x07", "\x00", "a\x00b", "\x9b1m",
    "\u202e", "\u2028", "a\r\nb", "[red]", "[/]", "[bold", "[link=http://x]y[/link]", ":smile:",
    "a=b", "=", "loss=", "=0.1", "loss=nan", "loss=0.1=2", "✓" * 50, "../..", "/", "/dev/null",
    "~", "--", "-x", "--json", "{}", "[]", "null", "true", "None", "a" * 10_000, "%s%n", "$HOME",
    "clip(3)", "budgeted_clip(-1)", "budgeted_clip(1e9)", "budgeted_clip(nan)", "budgeted_clip()",
    "budgeted_clip(99999999999999999999)", "postgresql://u:s3cret@h:p/d",
]  # fmt: skip

CALIBRATE_OPTIONS = [
    "--alpha", "--promise", "--confidence", "--family", "--bound", "--test-weight", "--loss",
    "--log-safe", "--log-optimized", "--context", "--log-mix", "--safe-share", "--max-ratio",
    "--source", "--ratio-error", "--blend", "--max-rows", "--proposals",
]  # fmt: skip
THRESHOLD_OPTIONS = [
    "--alpha", "--promise", "--score", "--label", "--item", "--group", "--method", "--loss",
    "--confidence", "--max-rows",
]  # fmt: skip
PLAN_OPTIONS = [
    "--safe-risk", "--promise", "--alpha", "--bound", "--optimized-risk", "--spread", "--rows",
    "--pass-probability",
]  # fmt: skip

RELEASE_OPTIONS = [
    "--guardrail", "--old", "--confidence", "--keys-per-step", "--step-duration", "--wait",
    "--max-silence", "--alarm-risk", "--salt", "--max-rows",
]  # fmt: skip


def good_columns(rng):
    """A log, draws with contexts, and scored claims in one table."""
    actions = rng.normal(size=ROWS)
    return {
        "loss": (actions > 1.2).astype(float),
        "log_safe": -(actions**2) / 2 - 0.92,
        "log_optimized": -((actions - 0.3) ** 2) / 2 - 0.92,
        "ward": np.arange(ROWS) % 3,
        "score": rng.random(ROWS),
        "label": actions < 1,
        "item": np.repeat([f"q{k}" for k in range(ROWS // 3)], 3),
    }


def odd_columns(good):
    """Values that a column may have instead of its own."""
    count = len(good["loss"])
    return {
        "nan": np.full(count, np.nan),
        "one_nan": np.append(np.nan, np.zeros(count - 1)),
        "inf": np.full(count, np.inf),
        "minus_inf": np.full(count, -np.inf),
        "huge": np.full(count, 1e308),
        "tiny": np.full(count, 5e-324),
        "negative": np.full(count, -1.0),
        "zero": np.zeros(count),
        "largest_integer": np.full(count, 2**63 - 1),
        "unsigned": np.full(count, 2**64 - 1, dtype=np.uint64),
        "small_integer": np.ones(count, dtype=np.int8),
        "half": np.ones(count, dtype=np.float16),
        "boolean": np.ones(count, dtype=bool),
        "text": ["x"] * count,
        "number_text": ["0.5"] * count,
        "escape": ["\x1b[31m[/]\x00\u202e"] * count,
        "long_text": ["✓" * 5000] * count,
        "empty_text": [""] * count,
        "none": [None] * count,
        "one_none": [None, *[1.0] * (count - 1)],
        "one_missing_integer": pa.array([None, *[1] * (count - 1)], pa.int64()),
        "one_missing_boolean": pa.array([None, *[True] * (count - 1)]),
        "one_missing_text": pa.array([None, *["a"] * (count - 1)]),
        "lists": [[1.0]] * count,
        "structs": [{"a": 1}] * count,
        "bytes": [b"\xff\x00"] * count,
        "decimal": [Decimal("0.5")] * count,
        "time": np.full(count, "2026-01-01", dtype="datetime64[s]"),
        "dictionary": pa.array(["a", "b"] * (count // 2)).dictionary_encode(),
    }


def make_files(folder: Path) -> list[Path]:
    """Files that are wrong in some way, and two that are not: `good.parquet` and `good.csv`."""
    rng = np.random.default_rng(0)
    good = good_columns(rng)
    table = pa.table(good)
    parquet.write_table(table, folder / "good.parquet")
    csv.write_csv(table, folder / "good.csv")
    odd = {f"{column}_{kind}": {**good, column: values}
           for kind, values in odd_columns(good).items()
           for column in ("loss", "log_safe", "ward", "score", "label", "item")}  # fmt: skip
    for name, columns in odd.items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
        with contextlib.suppress(pa.ArrowInvalid):
            csv.write_csv(pa.table(columns), folder / f"{name}.csv")
    _make_broken(folder, table)
    return sorted(folder.iterdir())


def _make_broken(folder: Path, table: pa.Table) -> None:
    content = (folder / "good.parquet").read_bytes()
    text = (folder / "good.csv").read_bytes()
    noise = np.random.default_rng(1)
    broken = {
        "empty": b"",
        "junk": noise.bytes(3000),
        "zeros": bytes(1000),
        "magic": b"PAR1",
        "magic_twice": b"PAR1PAR1",
        "magic_length": b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        "magic_negative": b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1",
        "json": json.dumps({"loss": [1, 2], "log_safe": [3]}).encode(),
        "json_list": b"[1, 2, 3]",
        "json_null": b"null",
        "html": b"<html><body>404</body></html>",
        "newline": b"\n",
        "spaces": b"   \n  \n",
        "nul": b"loss,log_safe\n0,\x000\n",
        "utf16": "loss,log_safe\n0,1\n".encode("utf-16"),
        "latin": "loss,log_sàfe\n0,1\n".encode("latin-1"),
        "ragged": b"loss,log_safe,log_optimized\n0,-1\n0,-1,-1,4\n",
        "quote": b'loss,log_safe,log_optimized\n"0,-1,-1\n',
        "header": b"loss,log_safe,log_optimized\n",
        "twice": b"loss,loss,log_safe,log_optimized\n0,0,-1,-2\n",
        "semicolons": b"loss;log_safe;log_optimized\n0;-1;-2\n",
        "big_integers": b"loss,log_safe,log_optimized\n0,-1," + b"9" * 400 + b"\n",
        "long_line": b"loss,log_safe,log_optimized\n" + b"1" * 5_000_000,
        "escape_names": b"lo\x1b[31mss,[/],log_optimized\n0,-1,-2\n",
        "carriage": b"loss,log_safe,log_optimized\r0,-1,-2\r1,-1,-2\r",
        "bom": b"\xef\xbb\xbf" + text,
        "pickle": b"\x80\x04K\x01.",
        "sqlite": b"SQLite format 3\x00" + bytes(200),
        "gzip": gzip.compress(text),
        "gzip_cut": gzip.compress(text)[:-20],
        "gzip_junk": gzip.compress(noise.bytes(500)),
    }
    for name, raw in broken.items():
        for suffix in (".parquet", ".csv", ".csv.gz"):
            (folder / f"{name}{suffix}").write_bytes(raw)
    for cut in np.linspace(5, len(content) - 1, 12).astype(int):
        (folder / f"cut_{cut}.parquet").write_bytes(content[:cut])
    for seed in range(60):
        changed = bytearray(content)
        changes = random.Random(seed)
        for _ in range(changes.choice([1, 1, 3, 20])):
            changed[changes.randrange(len(changed))] = changes.randrange(256)
        (folder / f"flipped_{seed}.parquet").write_bytes(bytes(changed))
    parquet.write_table(table.slice(0, 0), folder / "no_rows.parquet")
    parquet.write_table(pa.table({}), folder / "no_columns.parquet")
    parquet.write_table(table.slice(0, 1), folder / "one_row.parquet")
    parquet.write_table(
        table.rename_columns(["\x1b[2J", "[/]", "log_optimized", *table.column_names[3:]]),
        folder / "escape_columns.parquet",
    )
    (folder / "folder.parquet").mkdir()
    (folder / "folder.csv").mkdir()
    (folder / "dangling.csv").symlink_to(folder / "nothing.csv")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    (folder / "\x1b[31m[red]\u202e.csv").write_bytes(text)
    (folder / "no_suffix").write_bytes(text)


def commands_on_files(files: list[Path]):
    """Every file as the log, as proposals, as claims and as the log of an old system."""
    good = next(path for path in files if path.name == "good.parquet")
    columns = ["--score", "score", "--label", "label", "--item", "item"]
    for path in files:
        yield ["calibrate", path, "--alpha", "0.3", "--no-context"]
        yield ["release", "start", "sqlite://", "--guardrail", "loss=0.3", "--old", path]
        if path.name.startswith("log_safe_"):
            draws = ["--proposals", path, "--no-context"]
            yield ["calibrate", good, "--alpha", "0.3", *draws, "--json"]
        if path.name.startswith("ward_"):
            contexts = ["--context", "ward", "--family", "mix", "--max-ratio", "20"]
            yield ["calibrate", path, "--alpha", "0.4", *contexts]
        elif not path.name.startswith(("loss_", "log_safe_")):
            yield ["threshold", path, "--alpha", "0.4", *columns]


def commands_on_values(files: list[Path]):
    """Every value for every option."""
    good = next(path for path in files if path.name == "good.parquet")
    claims = ["--score", "score", "--label", "label", "--item", "item"]
    for value in VALUES:
        for option in CALIBRATE_OPTIONS:
            target = [] if option in ("--alpha", "--promise") else ["--alpha", "0.3"]
            contexts = [] if option == "--context" else ["--no-context"]
            yield ["calibrate", good, *target, *contexts, option, value]
        for option in THRESHOLD_OPTIONS:
            target = [] if option in ("--alpha", "--promise") else ["--alpha", "0.4"]
            yield ["threshold", good, *claims, *target, option, value]
        for option in PLAN_OPTIONS:
            needed = [] if option == "--safe-risk" else ["--safe-risk", "0.05"]
            target = [] if option in ("--alpha", "--promise") else ["--alpha", "0.1"]
            yield ["plan", *needed, *target, option, value]
        losses = ["--loss", "score", "--no-context"]
        yield ["calibrate", good, *losses, "--bound", value, "--alpha", value]
        yield ["calibrate", good, *losses, "--bound", value, "--promise", "0.9", "--json"]
        for option in RELEASE_OPTIONS:
            needed = [] if option == "--guardrail" else ["--guardrail", "loss=0.3"]
            yield ["release", "start", "sqlite://", *needed, option, value]
        yield [value]
        yield ["release", value]
        yield ["calibrate", value, "--alpha", "0.1"]
        yield ["plan", value]
        yield ["plan", f"--{value}", "0.1"]
        yield ["preflight", value, "--safe", value, "--optimized", value]


def make_stores(folder: Path) -> list[Path]:
    """Files that are no store of a run."""
    (folder / "empty.db").touch()
    (folder / "junk.db").write_bytes(np.random.default_rng(2).bytes(5000))
    (folder / "cut.db").write_bytes(b"SQLite format 3\x00" + bytes(4000))
    (folder / "text.db").write_text("hello")
    (folder / "folder.db").mkdir()
    with contextlib.closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("create table tether_settings (a text)")
        other.commit()
    with contextlib.closing(sqlite3.connect(folder / "another.db")) as other:
        other.execute("create table tether_settings (name text, value text)")
        other.execute("insert into tether_settings values ('version', '\x1b[31m')")
        other.commit()
    return sorted(folder.glob("*.db"))


def commands_on_stores(stores: list[Path], folder: Path):
    """Every file and every value as a store."""
    for store in [*stores, folder / "missing.db", *VALUES]:
        yield ["status", store]
        yield ["status", store, "--json"]
        yield ["report", store, "--out", folder / "report.html"]
        yield ["resume", store, "--reason", "x"]
        yield ["export", store, folder / "out.parquet"]
        yield ["backup", store, folder / "copy.db", "--force"]
        yield ["verify", store]
        yield ["halt", store, "--reason", "x"]
        yield ["retire", store, "1", "--reason", "x"]
        yield ["release", "assign", store, "ann"]
        yield ["release", "advance", store]
        yield ["release", "observe", store, "--key", "ann", "--loss", "x=1"]
    release = folder / "release.db"
    with tether.Release(release, {"loss": 0.3}) as made:
        made.assign("ann")
    for value in VALUES:
        if "nan" not in value and "s3cret" not in value:  # a key is printed as it is
            yield ["release", "assign", release, value]
            yield ["release", "assign", release, value, "--json"]
        yield ["release", "observe", release, "--key", value, "--loss", "loss=1"]
        yield ["release", "observe", release, "--key", "ann", "--loss", value]
        yield ["release", "observe", release, "--key", "ann", "--loss", f"loss={value}"]
        yield ["release", "observe", release, "--file", value, "--system", value]
    for value in VALUES:
        yield ["status", folder / "empty.db", "--follow", "--every", value]
        yield ["resume", folder / "missing.db", "--reason", value]
        yield ["export", folder / "empty.db", value]
        yield ["import", value, folder / "new.db"]
        yield ["backup", folder / "empty.db", value]
        yield ["halt", folder / "missing.db", "--reason", "x", "--actor", value]
        yield ["retire", folder / "empty.db", value, "--reason", "x"]
        yield ["sign", folder / "empty.db", "--key", value]
        yield ["verify", folder / "empty.db", "--key", value]


def everything(folder: Path) -> list[list[object]]:
    """All commands, on files and stores that are made in a folder."""
    for name in ("files", "stores", "imports"):
        (folder / name).mkdir()
    files, stores = make_files(folder / "files"), make_stores(folder / "stores")
    return [
        *commands_on_files(files),
        *commands_on_values(files),
        *commands_on_stores(stores, folder / "stores"),
        *commands_on_imports(files, folder / "imports"),
    ]


def commands_on_imports(files: list[Path], folder: Path):
    """Every file as an export."""
    for number, path in enumerate(files):
        yield ["import", path, folder / f"import_{number}.db"]
