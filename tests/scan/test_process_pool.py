"""Any engine that maps a function over partitions: here a pool of processes."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest
from pyarrow import parquet

import tether
from tests.scan import tables


def summary_of(path, kernel):
    table = parquet.read_table(path, columns=list(kernel.columns))
    return kernel.partial({name: table[name].to_numpy() for name in kernel.columns})


@pytest.mark.slow
def test_a_function_that_maps_a_kernel_over_partitions_is_a_source(tmp_path):
    claims, log = tmp_path / "claims", tmp_path / "log"
    columns, rows = tables.write_claims(claims), tables.write_log(log)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:

        def over(folder):
            files = [f for f in folder.glob("*.parquet") if parquet.read_metadata(f).num_rows]
            return lambda kernel: pool.map(partial(summary_of, kernel=kernel), files)

        memory = tether.Claims.from_table(columns["score"], columns["label"], columns["item"])
        scanned = tether.Claims.scan(over(claims), scores="score", supported="label", items="item")
        found = tether.gcrc(scanned, alpha=0.2)
        assert found.threshold == tether.gcrc(memory, alpha=0.2).threshold
        calibrated = tether.calibrate(
            tether.Log.scan(over(log), context=None), alpha=0.15, test_weight="analytic"
        )
    expected = tether.calibrate(
        tether.Log.from_frame(rows, context=None), alpha=0.15, test_weight="analytic"
    )
    assert abs(np.log(calibrated.beta / expected.beta)) <= 1e-10
