"""Errors about scores, labels and numbers name the option, the column and what to write."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tether
from tests.cli.command_line import one_line, run

RNG = np.random.default_rng(3)
SCORES = RNG.random(200).round(3)
TRUE = RNG.random(200) < SCORES
TABLE = {
    "q": np.repeat([f"q{i}" for i in range(50)], 4),
    "s": SCORES,
    "t": TRUE,
    "percent": [f"{100 * score:.0f}%" for score in SCORES],
    "vote": TRUE.astype(int) - (np.arange(200) % 3 == 1),
    "word": np.where(TRUE, "supported", "contradicted"),
    "some": [None if k % 5 == 0 else bool(t) for k, t in enumerate(TRUE)],
}


@pytest.fixture(params=["parquet", "csv"])
def table(request, tmp_path):
    path = tmp_path / f"claims.{request.param}"
    write = pyarrow.csv.write_csv if request.param == "csv" else pyarrow.parquet.write_table
    write(pa.table(TABLE), path)
    return path


@pytest.mark.parametrize(
    ("changed", "messages"),
    [
        ({"score": "percent"}, ("--score: column 'percent' must hold", "% as 0.")),
        ({"label": "vote"}, ("--label: column 'vote' must hold", "got -1 in row")),
        ({"label": "word"}, ("--label: column 'word'", "table['word'] == 'WORD'")),
        ({"label": "some"}, ("--label: column 'some' has 40 missing", "all rows of the items")),
        ({"promise": "10%"}, ("'--promise': '10%' is not a number: write 10% as 0.1",)),
        ({"promise": "0,1"}, ("'--promise'", "write decimals with a point, 0.1")),
    ],
)
def test_what_to_write_is_said(table, changed, messages):
    options = {"score": "s", "label": "t", "item": "q", "promise": 0.3, **changed}
    arguments = [each for name, value in options.items() for each in (f"--{name}", value)]
    done = run("threshold", table, *arguments)
    assert done.exit_code == 2
    text = " ".join(one_line(done).replace("│", " ").split())
    for message in messages:
        assert message in text


def test_a_number_in_the_place_of_thresholds_is_told():
    claims = tether.Claims([0.9, 0.8, 0.3] * 20, [1, 1, 0] * 20, range(0, 61, 3))
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        with pytest.raises(ValueError, match=r"0\.1, was taken as thresholds.*write promise=0\.1"):
            method(claims, 0.1)
