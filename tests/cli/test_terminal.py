"""Reading tables, printing results and reporting errors."""

import pyarrow as pa
import pytest
import typer
from pyarrow import csv, parquet

from tether.cli import terminal


@pytest.fixture
def table():
    return pa.table({"a": [1, 2], "b": [0.5, 0.25]})


def test_parquet_and_csv_are_the_same_table(table, tmp_path):
    parquet.write_table(table, tmp_path / "table.parquet")
    csv.write_csv(table, tmp_path / "table.csv")
    with pa.CompressedOutputStream(str(tmp_path / "table.csv.gz"), "gzip") as stream:
        csv.write_csv(table, stream)
    for name in ("table.parquet", "table.csv", "table.csv.gz"):
        assert terminal.read_table(tmp_path / name).equals(table)


def test_errors_become_one_line_and_an_exit_code(capsys):
    @terminal.report_errors
    def fail():
        raise ValueError("a [bold] message\n  on two lines")

    with pytest.raises(typer.Exit) as raised:
        fail()
    assert raised.value.exit_code == terminal.INVALID_INPUT == 2
    assert capsys.readouterr().err == "error: a [bold] message on two lines\n"


def test_other_errors_are_not_hidden():
    @terminal.report_errors
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
