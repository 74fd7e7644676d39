"""The rules of docs/contributing/architecture.md, checked on the source: who may import what.

The tables below are the rules. Each message names the file and the line that breaks one.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tether as facade
from tests.import_graph import Package, exported

ANY = frozenset({"*"})
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tether"
PAGE = ROOT / "docs" / "contributing" / "architecture.md"

MAY_IMPORT: dict[str, frozenset[str]] = {
    "_core": frozenset(),
    "control": frozenset({"_core"}),
    "planning": frozenset({"_core", "control"}),
    "risk": frozenset({"_core"}),
    "scan": frozenset({"_core", "control", "risk"}),
    "sampling": frozenset({"_core", "control"}),
    "policies": frozenset({"_core", "control", "sampling"}),
    "saving": frozenset({"_core", "aiming", "control", "policies", "sampling"}),
    "aiming": frozenset({"_core", "control", "policies", "sampling"}),
    "learn": frozenset({"_core", "control", "policies", "risk"}),
    "monitor": frozenset({"_core"}),
    "release": frozenset({"_core"}),
    "rounds": frozenset(
        {"_core", "aiming", "control", "policies", "sampling", "saving", "monitor", "release"}
    ),
    "report": frozenset({"_core", "control", "planning", "risk", "rounds"}),
    "llm": frozenset({"_core", "control", "policies", "sampling"}),
    "bo": frozenset({"_core", "control", "policies", "sampling"}),
    "verification": frozenset(
        {"_core", "control", "risk", "sampling", "policies", "monitor", "rounds", "llm"}
    ),
    "service": frozenset({"_core", "llm", "policies", "report", "rounds"}),
    "cli": ANY,
    "demo": ANY,
}
"""The rooms that each room may import, at module level or inside functions."""

PLOTS = frozenset({(room, "report") for room in ("control", "planning", "risk", "rounds")})
"""Pairs of rooms of which the first may load a `*_plot` module of the second inside a method."""

OFFERED = frozenset(
    {
        ("release", "rounds", "tether.rounds"),
        ("_core", "report", "tether.report.summary_card"),
        ("control", "scan", "tether.scan"),
        ("risk", "scan", "tether.scan"),
    }
)
"""Modules that a room may load on first use although it may not import their room: what `Release`
is offered from, what a notebook shows of any result, and what `scan` methods read with."""

RECORDS_ONLY = {("report", "rounds")}
"""Pairs of rooms of which the first may take only dataclasses from the second."""

HEAVY: dict[str, frozenset[str]] = {
    "torch": frozenset({"bo", "llm", "policies", "saving"}),
    "transformers": frozenset({"llm"}),
    "peft": frozenset({"llm"}),
    "httpx2": frozenset({"llm", "service"}),
    "botorch": frozenset({"bo"}),
    "sqlalchemy": frozenset({"rounds"}),
    "pandas": frozenset({"rounds"}),
    "pyarrow": frozenset({"cli", "rounds", "scan"}),
    "narwhals": frozenset({"scan"}),
    "duckdb": frozenset({"scan"}),
    "ray": frozenset({"scan"}),
    "dask": frozenset({"scan"}),
    "pyspark": frozenset({"scan"}),
    "matplotlib": frozenset({"demo", "report"}),
    "typer": frozenset({"cli"}),
    "rich": frozenset({"cli", "demo"}),
    "sklearn": frozenset({"aiming", "demo", "learn", "policies"}),
    "skops": frozenset({"saving"}),
    "safetensors": frozenset({"saving"}),
    "polars": frozenset({"rounds", "scan"}),
    "starlette": frozenset({"service"}),
    "uvicorn": frozenset({"service"}),
    "prometheus_client": frozenset({"service"}),
    "cryptography": frozenset({"_core"}),
}
"""The rooms in which each heavy dependency may be imported."""

LIGHT_ROOMS = frozenset(
    {"_core", "aiming", "control", "monitor", "planning", "policies", "risk", "sampling"}
)
"""The rooms that load no heavy dependency when they are imported."""

OUTSIDE_ROOMS = frozenset({"tether", "tether.__main__", "tether._version"})
"""The modules that lie beside the rooms. Any room may import the version; the facade is for users,
and only cli and demo import it."""

MAX_LINES = 400
"""The longest source file."""


def room_violations(package: Package) -> Iterator[str]:
    """Imports from one room into another that the table does not allow."""
    for found in package.imports:
        room = package.room(found.importer)
        if room is None or not package.is_inside(found.target):
            continue
        allowed = MAY_IMPORT.get(room, frozenset())
        target = package.room(found.target)
        if allowed == ANY or target == room or found.target == f"{package.name}._version":
            continue
        if (room, target) in PLOTS and found.target.endswith("_plot") and not found.eager:
            continue
        if (room, target, found.target) in OFFERED and not found.eager:
            continue
        if target is None:
            yield f"{package.place(found)}: {room} imports the facade {found.target}"
        elif target not in allowed:
            accepted = ", ".join(sorted(allowed)) or "no other room"
            yield f"{package.place(found)}: {room} imports {found.target}; it may import {accepted}"
        elif (room, target) in RECORDS_ONLY:
            yield from _names_that_are_not_records(package, found)


def _names_that_are_not_records(package, found):
    module = importlib.import_module(found.target)
    for name in found.names or (None,):
        if name is None or not dataclasses.is_dataclass(getattr(module, name)):
            taken = found.target if name is None else f"{found.target}.{name}"
            yield f"{package.place(found)}: {taken} is not a record (a dataclass)"


def places_without_a_rule(package: Package) -> Iterator[str]:
    """Folders that are not in the table, and files that belong into a room."""
    for name in package.modules:
        room = package.room(name)
        if room is None and name not in OUTSIDE_ROOMS:
            yield f"{package.relative(name)}:1: a module belongs into a room"
        elif room is not None and room not in MAY_IMPORT:
            yield f"{package.relative(name)}:1: room {room} is not in MAY_IMPORT"


def import_cycles(package: Package) -> Iterator[str]:
    """Circular imports at module level."""
    for chain in package.cycles():
        links = [f"{package.place(link)} imports {link.target}" for link in chain]
        yield "circular import: " + "; ".join(links)


def heavy_violations(package: Package) -> Iterator[str]:
    """Heavy dependencies outside their rooms, or loaded by `import tether` or a light room."""
    light = [package.name, *(f"{package.name}.{room}" for room in sorted(LIGHT_ROOMS))]
    eager = set().union(*(package.loaded_by(each) for each in light if each in package.modules))
    for found in package.imports:
        dependency = found.target.partition(".")[0]
        if dependency not in HEAVY:
            continue
        room = package.room(found.importer)
        if room not in HEAVY[dependency]:
            rooms = ", ".join(sorted(HEAVY[dependency])) or "no room"
            yield f"{package.place(found)}: imports {dependency}; allowed in {rooms}"
        if found.eager and found.importer in eager:
            yield f"{package.place(found)}: {dependency} is loaded by a light room"


def shadowed_modules(package: Package) -> Iterator[str]:
    """Exported names that equal the name of a submodule, unless they are the submodule itself."""
    for module in package.modules.values():
        if not module.is_package:
            continue
        names = dict(exported(module))
        suspects = sorted(set(names) & package.submodules(module.name))
        if suspects:
            modules = _those_that_are_modules(package, module.name, suspects)
            for name in sorted(set(suspects) - modules):
                place = f"{package.relative(module.name)}:{names[name]}"
                yield f"{place}: {name} in __all__ hides the module {module.name}.{name}"


def _those_that_are_modules(package, module, names):
    """Looked up in a fresh process: an attribute depends on what was imported before."""
    code = (
        "import importlib, json, sys, types\n"
        "package, names = importlib.import_module(sys.argv[1]), sys.argv[2:]\n"
        "found = [n for n in names if isinstance(getattr(package, n), types.ModuleType)]\n"
        "print(json.dumps(found))"
    )
    return set(json.loads(in_fresh_process(code, module, *names, path=package.folder.parent)))


def long_files(package: Package) -> Iterator[str]:
    """Files with too many lines."""
    for module in package.modules.values():
        if module.lines > MAX_LINES:
            place = f"{package.relative(module.name)}:{MAX_LINES + 1}"
            yield f"{place}: {module.lines} lines, at most {MAX_LINES}"


def in_fresh_process(code: str, *arguments: str, path: Path = SOURCE.parent) -> str:
    """What a new interpreter prints that finds the package in `path` first."""
    code = f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(violations: Iterator[str]) -> str:
    return "\n".join(sorted(violations))


def require_none(violations: Iterator[str]) -> None:
    found = listed(violations)
    assert not found, f"\n{found}"


@pytest.fixture(scope="module")
def tether() -> Package:
    return Package(SOURCE)


def test_rooms_import_only_what_the_table_allows(tether):
    require_none(room_violations(tether))


def test_every_module_lies_in_a_room_of_the_table(tether):
    require_none(places_without_a_rule(tether))


def test_no_modules_import_each_other_in_a_circle(tether):
    require_none(import_cycles(tether))


def test_heavy_dependencies_stay_in_their_rooms_and_load_late(tether):
    require_none(heavy_violations(tether))


def test_no_exported_name_hides_a_module(tether):
    require_none(shadowed_modules(tether))


def test_no_file_is_too_long(tether):
    require_none(long_files(tether))


def test_import_tether_loads_nothing_else():
    loaded = json.loads(in_fresh_process("import json, tether; print(json.dumps([*sys.modules]))"))
    assert sorted(set(loaded) & {*HEAVY, "numpy", "scipy"}) == []
    assert sorted(name for name in loaded if name.startswith("tether.")) == ["tether._version"]


def test_light_rooms_load_no_heavy_dependency():
    rooms = ", ".join(f"tether.{room}" for room in sorted(LIGHT_ROOMS))
    code = f"import json, {rooms}; print(json.dumps([*sys.modules]))"
    loaded = json.loads(in_fresh_process(code))
    assert sorted(set(loaded) & {*HEAVY, "scipy"}) == []


def test_every_public_name_is_found_when_it_is_first_used():
    code = "import tether; print(sum(getattr(tether, name) is not None for name in NAMES))"
    names = [name for name in facade.__all__ if name not in ("bo", "llm")]
    found = in_fresh_process(code.replace("NAMES", repr(names)))
    assert int(found) == len(names)
    with pytest.raises(AttributeError, match="module 'tether' has no attribute 'nothing'"):
        _ = facade.nothing


def test_the_page_shows_the_table():
    rows = re.findall(r"^\| `(\w+)/` \|.*\| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    shown = {
        room: ANY if "any" in cell else set(re.findall(r"`(\w+)`", cell)) for room, cell in rows
    }
    assert shown == MAY_IMPORT


@pytest.fixture
def broken(tmp_path):
    """A small package that breaks every rule once."""
    files = {
        "__init__.py": "from tether.control import solve\n",
        "stray.py": "",
        "_core/__init__.py": "",
        "_core/ties.py": "def f():\n    from tether.risk import pick\n",
        "control/__init__.py": (
            'from .solve import solve\n__all__ = [\n    "solve",\n]\n'
            "def lazily():\n    import tether\n"
        ),
        "control/solve.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
            "import numpy.linalg, torch.nn\nfrom . import other\n\n\ndef solve(): ...\n"
        ),
        "control/other.py": "from tether.control.solve import solve\n",
        "risk/__init__.py": "",
        "risk/pick.py": "from importlib import import_module\nx = import_module('polars')\n",
        "risk/long.py": "\n" * 401,
        "serve/__init__.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "tether" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Package(tmp_path / "tether")


def test_each_rule_finds_what_breaks_it(broken):
    assert listed(room_violations(broken)).splitlines() == [
        "tether/_core/ties.py:2: _core imports tether.risk.pick; it may import no other room",
        "tether/control/__init__.py:6: control imports the facade tether",
    ]
    assert listed(places_without_a_rule(broken)).splitlines() == [
        "tether/serve/__init__.py:1: room serve is not in MAY_IMPORT",
        "tether/stray.py:1: a module belongs into a room",
    ]
    assert listed(import_cycles(broken)) == (
        "circular import: tether/control/solve.py:5 imports tether.control.other; "
        "tether/control/other.py:1 imports tether.control.solve"
    )
    assert listed(heavy_violations(broken)).splitlines() == [
        "tether/control/solve.py:4: imports torch; allowed in bo, llm, policies, saving",
        "tether/control/solve.py:4: torch is loaded by a light room",
        "tether/risk/pick.py:2: imports polars; allowed in rounds, scan",
    ]
    assert listed(long_files(broken)) == "tether/risk/long.py:401: 401 lines, at most 400"


def test_an_exported_name_that_hides_a_module_is_found(tmp_path):
    for name, text in {
        "__init__.py": 'from hidden import room\n__all__ = ["room"]\n',
        "room/__init__.py": 'from hidden.room.solve import solve\n__all__ = [\n    "solve",\n]\n',
        "room/solve.py": "def solve(): ...\n",
    }.items():
        (tmp_path / "hidden" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hidden" / name).write_text(text)
    assert listed(shadowed_modules(Package(tmp_path / "hidden"))) == (
        "hidden/room/__init__.py:3: solve in __all__ hides the module hidden.room.solve"
    )


def test_report_may_take_records_of_rounds_and_nothing_else(tmp_path):
    for name, text in {
        "__init__.py": "",
        "rounds/__init__.py": "",
        "report/__init__.py": "",
        "report/page.py": "from tether.rounds import History, Controller\n",
    }.items():
        (tmp_path / "tether" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tether" / name).write_text(text)
    assert listed(room_violations(Package(tmp_path / "tether"))) == (
        "tether/report/page.py:1: tether.rounds.Controller is not a record (a dataclass)"
    )


def test_a_constant_name_has_one_meaning():
    """No public constant is defined in two modules: a reader need not ask which one is meant."""
    defined: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for name in names:
                    if isinstance(name, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]+", name.id):
                        defined.setdefault(name.id, []).append(str(path.relative_to(SOURCE)))
    repeated = {name: files for name, files in defined.items() if len(files) > 1}
    assert not repeated
