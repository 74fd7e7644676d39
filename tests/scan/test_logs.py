"""Logs in files: calibrations equal those of memory to rounding, and bad columns are refused."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tether
from tether._core.rows import Rows
from tether.scan import OnRay

ACTIONS = 4


def gaussian(rng, rows, mixture=False):
    moved = (rng.random(rows) < 0.3) & mixture
    a = np.where(moved, rng.normal(1, 0.8, rows), rng.normal(size=rows))
    safe, optimized = -(a**2) / 2 - 0.919, -((a - 1) ** 2) / 1.28 - 0.696
    mix = np.logaddexp(safe + np.log(0.7), optimized + np.log(0.3))
    columns = {"loss": (a > 1.5) * 1.0, "cost": rng.random(rows), "reward": a}
    return {**columns, "log_safe": safe, "log_optimized": optimized, "mixture": mix}


def tables(rng, rows, mixture=False):
    safe, optimized = (np.log(rng.dirichlet(np.ones(ACTIONS) * 2, rows)) for _ in range(2))
    mix = np.logaddexp(safe + np.log(0.7), optimized + np.log(0.3))
    acting = np.exp(mix if mixture else safe).cumsum(axis=1)
    taken = np.arange(rows), (acting < rng.random((rows, 1))).sum(axis=1)
    columns = {"loss": (taken[1] == 0) * 0.4, "log_safe": safe[taken]}
    columns |= {"log_optimized": optimized[taken], "mixture": mix[taken]}
    for name, table in (("safe", safe), ("optimized", optimized), ("mix", mix)):
        columns |= {f"{name}_{k}": table[:, k] for k in range(ACTIONS)}
        columns[f"{name}_lists"] = pa.array(list(table))
    return columns


def draws(rng, rows):
    center = rng.normal(size=rows)
    columns = {}
    for name, shift, count in (("taken", 0, 1), ("safe", 0, 6), ("optimized", 1, 6)):
        a = rng.normal(shift, 1, (rows, count)) + center[:, None]
        scores = (-((a - center[:, None] - each) ** 2) / 2 for each in (0, 1))
        columns |= {f"{name}_{p}": s for p, s in zip("so", scores, strict=True)}
        columns["loss"] = columns.get("loss", (a[:, 0] > 1.5 + center) * 1.0)
    return columns


def write(folder, columns, parts=3):
    def plain(values):
        return pa.array(list(values)) if getattr(values, "ndim", 1) == 2 else values

    table = pa.table({name: plain(values) for name, values in columns.items()})
    folder.mkdir()
    cuts = np.linspace(0, table.num_rows, parts + 1).astype(int)
    for k in range(parts):
        parquet.write_table(table.slice(cuts[k], cuts[k + 1] - cuts[k]), folder / f"{k}.parquet")
    return folder


def assert_same(one, other, name=""):
    """Two calibrations that agree in every number, to rounding."""
    if dataclasses.is_dataclass(one):
        one, other = dataclasses.asdict(one), dataclasses.asdict(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys(), name
        for key in one.keys() - {"warnings", "probes"}:
            assert_same(one[key], other[key], f"{name}.{key}")
    elif isinstance(one, (float, tuple, list, np.ndarray)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)
    else:
        assert one == other, name


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixture", [False, True])
def test_logs_without_contexts(tmp_path, family, mixture):
    rng = np.random.default_rng(0)
    rows, fresh = gaussian(rng, 3000, mixture), gaussian(rng, 2000)
    rows["log_optimized"][: 1000 * (family == "clip")] = -np.inf  # a file of what is never done
    fresh["source"] = np.where(rng.random(2000) < 0.5, "safe", "optimized")
    log_mix = {"log_mix": "mixture"} if mixture else {}
    share = {"safe_share": 0.7} if mixture else {}
    named = {"loss": ["loss", "cost"], "reward": "reward", "context": None, **log_mix, **share}
    scanned = tether.Log.scan(write(tmp_path / "log", rows), **named)
    memory = tether.Log.from_frame(rows, **named)
    drawn = tether.Proposals.from_frame(fresh, context=None, **log_mix)
    asked = {"alpha": {"loss": 0.12, "cost": 0.6}, "family": family, "blend": 0.0}
    found, known = (tether.calibrate(log, drawn, **asked) for log in (scanned, memory))
    assert_same(found, known)
    assert 0 < found.beta < np.inf
    if family == "clip":
        assert_same(*(tether.calibrate(log, **asked) for log in (scanned, memory)))
    with pytest.raises(ValueError, match="memory"):
        _ = scanned.log_safe


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("mixture", [False, True])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
def test_logs_with_tables(tmp_path, listed, mixture, family):
    rows = tables(np.random.default_rng(1), 2000, mixture)
    policies = ("safe", "optimized", "mix") if mixture else ("safe", "optimized")
    named = {f"log_{p}_all": [f"{p}_{k}" for k in range(ACTIONS)] for p in policies}
    more = {"log_mix": "mixture", "safe_share": 0.7} if mixture else {}
    chosen = {f"log_{p}_all": f"{p}_lists" for p in policies} if listed else named
    scanned = tether.Log.scan(write(tmp_path / "log", rows), **chosen, **more)
    memory = tether.Log.from_frame(
        {name: values for name, values in rows.items() if "lists" not in name}, **named, **more
    )
    asked = {"alpha": 0.12, "family": family}
    assert_same(tether.calibrate(scanned, **asked), tether.calibrate(memory, **asked))


def test_logs_with_stored_draws(tmp_path):
    rows = draws(np.random.default_rng(2), 1500)
    rows |= {"log_safe": rows.pop("taken_s")[:, 0], "log_optimized": rows.pop("taken_o")[:, 0]}
    named = {"safe_draws": ("safe_s", "safe_o"), "optimized_draws": ("optimized_s", "optimized_o")}
    scanned = tether.Log.scan(write(tmp_path / "log", rows), **named)
    memory = {"loss/loss": rows["loss"], "log_safe": rows["log_safe"]}
    memory |= {"log_optimized": rows["log_optimized"]}
    memory |= {f"draws_{p}": rows[f"{p}_o"] - rows[f"{p}_s"] for p in ("safe", "optimized")}
    log = tether.Log.of_rows(Rows(memory), contextual=True)
    asked = {"alpha": 0.12, "family": "budgeted_clip(3)"}
    found = tether.calibrate(scanned, **asked)
    assert_same(found, tether.calibrate(log, **asked))
    assert 0 < found.beta < np.inf


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(("log_safe", np.nan, "log_safe"), ("log_safe", -np.inf, "log_safe")),
        *(("log_optimized", np.inf, "log_optimized"), ("reward", np.inf, "reward")),
        *(("loss", -0.5, "loss"), ("loss", np.nan, "loss")),
        *(("mixture", np.nan, "log_mix"), ("mixture", -50.0, "safe_share")),
    ],
)
def test_bad_values_name_the_column_and_the_file(tmp_path, name, value, message):
    rows = gaussian(np.random.default_rng(0), 300)
    rows[name][250] = value
    named = {"reward": "reward", "log_mix": "mixture", "safe_share": 0.7}
    log = tether.Log.scan(write(tmp_path / "log", rows), context=None, **named)
    with pytest.raises(ValueError, match=rf"2\.parquet: .*{message}"):
        tether.calibrate(log, alpha=0.2)


def test_columns_that_make_no_log_are_refused(tmp_path):
    folder = write(tmp_path / "log", tables(np.random.default_rng(0), 50))
    one, two = ("safe_lists",), ("safe_lists", "safe_lists")
    for named, message in (
        ({}, "context must be stated"),
        ({"log_safe_all": "safe_lists"}, "log_optimized_all is missing"),
        ({"safe_draws": two}, "optimized_draws is missing"),
        ({"safe_draws": one, "optimized_draws": one}, "safe_draws must name 2 columns"),
        ({"context": None, "loss": ["harm", "cost"]}, "no column 'harm', 'cost'"),
        ({"context": "ward"}, "context: there is no column 'ward'"),
        ({"context": "loss"}, "can be a context too"),
        ({"context": None, "log_base_limit": "loss"}, "log_base_limit"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            tether.Log.scan(folder, **named)


@pytest.mark.nightly
def test_a_calibration_on_ray_is_that_of_memory(tmp_path):
    import ray

    rows = gaussian(np.random.default_rng(0), 3000)
    folder = write(tmp_path / "log", rows)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    try:
        found = tether.calibrate(tether.Log.scan(OnRay(folder), context=None), alpha=0.12)
    finally:
        ray.shutdown()
    assert_same(found, tether.calibrate(tether.Log.from_frame(rows, context=None), alpha=0.12))
