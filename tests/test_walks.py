"""Everyday calls can be followed through few files."""

import pytest
from benchmarks import walks


@pytest.mark.parametrize("name", walks.LIMITS)
def test_a_walk_visits_few_files(name):
    files = walks.visited(name)
    limit = walks.LIMITS[name]
    assert len(files) <= limit, f"{len(files)} files, at most {limit}:\n" + "\n".join(files)


def test_functions_count_but_bodies_of_modules_and_classes_and_generated_methods_do_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(walks, "PACKAGE", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "walked_record.py").write_text(
        "from dataclasses import dataclass\n\n\n"
        "@dataclass(frozen=True)\nclass Record:\n    number: int = sum([n for n in range(3)])\n"
    )
    (tmp_path / "walked_function.py").write_text("def called(record):\n    return record.number\n")

    def walk():
        import walked_function
        import walked_record

        assert walked_function.called(walked_record.Record(3)) == 3

    assert walks.follow(walk) == ["walked_function.py"]


@pytest.mark.parametrize("name", ["round", "gcrc"])
def test_walks_without_a_limit_run(name):
    assert walks.visited(name)
