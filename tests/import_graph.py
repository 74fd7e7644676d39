"""The imports of a package, read from its source with `ast`: nothing is executed.

An import that runs when the module is loaded is "eager"; one inside a function is not. Imports
under `if TYPE_CHECKING:` never run and are left out. `importlib.import_module` with a literal name
counts as an import; with a computed name it cannot be seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One imported module, and the names taken from it; no names if the module itself is bound."""

    importer: str
    target: str
    names: tuple[str, ...]
    eager: bool
    line: int


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    path: Path
    is_package: bool
    tree: ast.Module
    lines: int


class Package:
    """Every module of the package in `folder`, by dotted name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self.modules = {module.name: module for module in self._read()}
        self.imports = [found for module in self.modules.values() for found in self._of(module)]

    def room(self, module: str) -> str | None:
        """The folder directly under the package; None for files that lie beside the folders."""
        parts = module.split(".")
        is_room = len(parts) > 1 and (self.folder / parts[1]).is_dir()
        return parts[1] if is_room else None

    def is_inside(self, target: str) -> bool:
        """Whether an imported module belongs to the package."""
        return target == self.name or target.startswith(f"{self.name}.")

    def place(self, found: Import) -> str:
        """File and line of an import, as an editor opens it."""
        return f"{self.relative(found.importer)}:{found.line}"

    def relative(self, module: str) -> Path:
        """The file of a module, as seen from the folder that holds the package."""
        return self.modules[module].path.relative_to(self.folder.parent)

    def submodules(self, package: str) -> set[str]:
        """The names of the modules directly inside a package."""
        start = f"{package}."
        inside = (name.removeprefix(start) for name in self.modules if name.startswith(start))
        return {name for name in inside if "." not in name}

    def loaded_by(self, module: str) -> set[str]:
        """Every module of the package that runs when `module` is imported."""
        eager: dict[str, set[str]] = {name: set() for name in self.modules}
        for found in self.imports:
            if found.eager and self.is_inside(found.target):
                eager[found.importer].update(self._with_parents(found.target))
        loaded: set[str] = set()
        waiting = set(self._with_parents(module))
        while waiting:
            name = waiting.pop()
            loaded.add(name)
            waiting |= eager.get(name, set()) - loaded
        return loaded

    def cycles(self) -> list[list[Import]]:
        """Circular chains of eager imports: one chain for each edge that closes one."""
        edges: dict[str, list[Import]] = {name: [] for name in self.modules}
        for found in self.imports:
            if found.eager and found.target in self.modules and found.target != found.importer:
                edges[found.importer].append(found)
        chains, finished = [], set()

        def visit(name: str, chain: list[Import]) -> None:
            for edge in edges[name]:
                visited = [link.importer for link in chain] + [name]
                if edge.target in visited:
                    chains.append([*chain, edge][visited.index(edge.target) :])
                elif edge.target not in finished:
                    visit(edge.target, [*chain, edge])
            finished.add(name)

        for name in edges:
            if name not in finished:
                visit(name, [])
        return chains

    def _read(self) -> Iterator[Module]:
        for path in sorted(self.folder.rglob("*.py")):
            parts = path.relative_to(self.folder.parent).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            text = path.read_text(encoding="utf-8")
            name = ".".join(parts[:-1] if is_package else parts)
            tree = ast.parse(text, filename=str(path))
            yield Module(name, path, is_package, tree, len(text.splitlines()))

    def _of(self, module: Module) -> Iterator[Import]:
        for node, eager in _statements(module.tree.body, eager=True):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(module.name, alias.name, (), eager, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                yield from self._from(module, node, eager)
            elif isinstance(node, ast.Call):
                yield Import(module.name, node.args[0].value, (), eager, node.lineno)

    def _from(self, module: Module, node: ast.ImportFrom, eager: bool) -> Iterator[Import]:
        """`from a import b` imports the module `a.b` if there is one, and else a name of `a`."""
        source = node.module or ""
        if node.level:
            parents = module.name.split(".")
            parents = parents[: len(parents) - node.level + module.is_package]
            source = ".".join([*parents, *([source] if source else [])])
        names = []
        for alias in node.names:
            if f"{source}.{alias.name}" in self.modules:
                yield Import(module.name, f"{source}.{alias.name}", (), eager, node.lineno)
            else:
                names.append(alias.name)
        if names:
            yield Import(module.name, source, tuple(names), eager, node.lineno)

    def _with_parents(self, module: str) -> list[str]:
        parts = module.split(".")
        names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return [name for name in names if name in self.modules]


def exported(module: Module) -> list[tuple[str, int]]:
    """The names in a module's `__all__`, with their lines."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            listed = getattr(node.value, "elts", [])
            return [(item.value, item.lineno) for item in listed if isinstance(item, ast.Constant)]
    return []


def _statements(nodes: Iterable[ast.AST], *, eager: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Imports and calls of `import_module`, and whether they run when the module is loaded."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, eager
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _statements(node.orelse, eager=eager)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            outside = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            outside += getattr(node, "decorator_list", [])
            yield from _statements(outside, eager=eager)
            body = node.body if isinstance(node.body, list) else [node.body]
            yield from _statements(body, eager=False)
        else:
            if isinstance(node, ast.Call) and _is_literal_import(node):
                yield node, eager
            yield from _statements(ast.iter_child_nodes(node), eager=eager)


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def _is_literal_import(call: ast.Call) -> bool:
    function = getattr(call.func, "id", getattr(call.func, "attr", None))
    literal = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return literal and function in ("import_module", "__import__")
