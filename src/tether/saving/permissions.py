"""What a file may do when it is loaded: which code it may name, which types its models may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeAlias

from tether._core.import_paths import import_path, split_import_path

AllowImports: TypeAlias = "bool | Iterable[str] | Callable[[str], bool]"
"""True, names of modules and packages, or a function of an import path."""
IMPORTED_BY_DEFAULT = ("tether.policies", "tether.bo")
"""The packages whose public names are always allowed. Not tether.llm, which connects to servers."""


class Permissions:
    """Which import paths a file may use, and which types beyond the usual ones its models have."""

    def __init__(self, allow_imports: AllowImports = (), trusted: Iterable[str] = ()) -> None:
        if isinstance(allow_imports, str):
            allow_imports = (allow_imports,)
        self._everything = allow_imports is True
        self._predicate = allow_imports if callable(allow_imports) else None
        self._prefixes: tuple[str, ...] = ()
        if not isinstance(allow_imports, bool) and not callable(allow_imports):
            self._prefixes = tuple(allow_imports)
        if not all(isinstance(prefix, str) for prefix in self._prefixes):
            raise TypeError(
                f"allow_imports must be True, a list of names of modules, or a function of an "
                f"import path, got {allow_imports!r}"
            )
        self.trusted = (trusted,) if isinstance(trusted, str) else tuple(trusted)
        if not all(isinstance(name, str) for name in self.trusted):
            raise TypeError(f"trusted must be a list of names of types, got {trusted!r}")

    def find(self, path: Any) -> Any:
        """Import what a path of a file names, if it is allowed."""
        module_name, _ = split_import_path(path)
        if self._everything or (self._predicate is not None and self._predicate(path)):
            return import_path(path)
        if not self._allows(module_name):
            raise ValueError(
                f"the file names the import path {path!r}, and to import it is to run code of "
                f"{module_name!r}. By default only public names of "
                f"{' and '.join(IMPORTED_BY_DEFAULT)} are allowed: pass "
                f"allow_imports=[{module_name!r}] if you trust this module"
            )
        return import_path(path, self._accepts)

    def _allows(self, module_name: Any) -> bool:
        return isinstance(module_name, str) and (
            _is_within(module_name, self._prefixes) or _is_within(module_name, IMPORTED_BY_DEFAULT)
        )

    def _accepts(self, path: str, found: Any) -> bool:
        """Whether an object on the way was defined where it is allowed, and not merely imported."""
        module_name = getattr(found, "__module__", None)
        if not isinstance(module_name, str):
            return False
        return _is_within(module_name, self._prefixes) or any(
            found is getattr(import_module(room), name)
            for room in IMPORTED_BY_DEFAULT
            if _is_within(module_name, (room,))
            for name in import_module(room).__all__
        )


def _is_within(module_name: str, packages: tuple[str, ...]) -> bool:
    return any(module_name == each or module_name.startswith(f"{each}.") for each in packages)
