"""Columns in the names of folders."""

import pyarrow as pa

from tether.scan.partition_folders import folder_types, folder_values, with_folders


def test_names_and_values_are_read_from_all_folders_of_a_path():
    path = "log/day=2026-01-01/a%2Fb=x%20y/part=__HIVE_DEFAULT_PARTITION__/n=3.parquet"
    assert folder_values(path) == {"day": "2026-01-01", "a/b": "x y", "part": None}
    assert folder_values("log/=3/other/part.parquet") == {}


def test_values_are_integers_if_all_are_written_as_integers_are():
    def kinds(*values):
        return folder_types(f"n={value}/part.parquet" for value in values)["n"]

    assert kinds("1", "-20", "__HIVE_DEFAULT_PARTITION__") == pa.int64()
    for other in ("007", "1.5", "a", "-", "9" * 30):
        assert kinds("1", other) == pa.string()


def test_a_column_of_the_file_comes_first():
    schema = pa.schema([("day", pa.float64())])
    path = "day=3/part.parquet"
    found, holds = with_folders(path, schema, folder_types([path]))
    assert found == schema
    assert holds is None
