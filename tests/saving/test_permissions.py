"""A file runs no code that was not allowed, by whatever path it names it."""

import pytest

import tether
from tests.saving import parts
from tether.saving.permissions import Permissions

HERE = "tests.saving.parts"


def test_public_names_of_the_policies_are_always_allowed():
    assert Permissions().find("tether.policies:Gaussian") is tether.Gaussian
    assert Permissions().find("tether.policies.gaussian:Gaussian") is tether.Gaussian


@pytest.mark.parametrize(
    "path",
    [
        "os:system",
        "builtins:eval",
        "tether:calibrate",
        "tether._core.records:write",
        "tether.llm:OpenAIPolicy",
        "tether.rounds:Controller",
        "tests.saving.parts:draw",
    ],
)
def test_everything_else_is_refused_and_the_error_says_what_to_pass(path):
    module = path.partition(":")[0]
    with pytest.raises(ValueError, match=rf"allow_imports=\['{module}'\] if you trust"):
        Permissions().find(path)


@pytest.mark.parametrize(
    "path",
    [
        "tether.policies.gaussian:np",
        "tether.policies.gaussian:np.load",
        "tether.policies.gaussian:validate.frozen",
        "tether.policies.gaussian:length",
        "tether.policies.functions:import_path",
        "tether.policies.functions:weakref.ref",
        "tether.policies.gaussian:_check_finite",
        "tether.policies:Gaussian.sample",
    ],
)
def test_what_an_allowed_module_imported_or_hides_is_not_allowed(path):
    with pytest.raises(ValueError, match=r"not allowed|leads through the module"):
        Permissions().find(path)


def test_modules_by_name_and_within_packages():
    assert Permissions(["tests.saving"]).find(f"{HERE}:draw") is parts.draw
    assert Permissions("tests").find(f"{HERE}:Own.tether_load")
    with pytest.raises(ValueError, match="allow_imports"):
        Permissions(["tests.sav"]).find(f"{HERE}:draw")
    with pytest.raises(ValueError, match="leads through the module 'numpy'"):
        Permissions(["tests"]).find(f"{HERE}:np.load")
    with pytest.raises(ValueError, match="leads through the module 'tether'"):
        Permissions(["tests"]).find(f"{HERE}:tether.Gaussian")


def test_a_predicate_and_everything():
    asked = []
    permissions = Permissions(lambda path: asked.append(path) or path.endswith(":draw"))
    assert permissions.find(f"{HERE}:draw") is parts.draw
    with pytest.raises(ValueError, match="allow_imports"):
        permissions.find(f"{HERE}:score")
    assert asked == [f"{HERE}:draw", f"{HERE}:score"]
    assert Permissions(True).find("math:floor")(2.5) == 2
    with pytest.raises(ValueError, match="allow_imports"):
        Permissions(False).find("math:floor")


def test_what_is_passed_is_checked():
    with pytest.raises(TypeError, match="allow_imports must be"):
        Permissions([3])
    with pytest.raises(TypeError, match="trusted must be"):
        Permissions((), [3])
    assert Permissions((), "a.b").trusted == ("a.b",)
