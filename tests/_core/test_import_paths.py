"""Import paths lead to functions and classes, and say clearly where they do not."""

import pytest

from tether._core.files import import_path, import_path_of, split_import_path


@pytest.mark.parametrize(
    "path",
    [
        *("", "math", "math:", ":floor", "math.floor", "../x:y", "a b:c", "math:floor()"),
        *("x:__class__", "a:" + "b" * 2_000, "math:floor:ceil", "x:a.__b", "1a:b", "a..b:c"),
        *(None, 3, b"math:floor"),
    ],
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="import path"):
        split_import_path(path)


def test_everything_on_the_way_is_asked_about():
    asked = []
    import_path("pathlib:Path.joinpath", lambda path, found: not asked.append(found))
    assert len(asked) == 2
    with pytest.raises(ValueError, match="not allowed"):
        import_path("math:floor", lambda path, found: False)


def test_the_path_of_a_function():
    def local():
        pass

    assert import_path_of(import_path) == "tether._core.files:import_path"
    assert import_path_of(local) is None
    assert import_path_of(lambda: 0) is None
    local.__qualname__ = "import_path"
    local.__module__ = "tether._core.files"  # an impostor
    assert import_path_of(local) is None
    local.__module__ = "__main__"
    assert import_path_of(local) is None
