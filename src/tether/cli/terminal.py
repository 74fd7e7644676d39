"""What the commands share: options, printing results, reporting errors, exit codes.

Text from a file, a store or an error is shown as it is, never as markup, and its control
characters as escapes; a database is shown without its password.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from tether._core import files, records, signing
from tether._core.extras import how_to_install
from tether._core.files import redact_text
from tether._core.words import TetherWarning, visible
from tether.cli.progress_bars import progress_bars

VERIFICATION_FAILED, INVALID_INPUT, NOTHING_PASSES, ALARM_STANDS = 1, 2, 3, 4
INTERRUPTED, READER_LEFT = 130, 141
"""Exit codes other than 0."""


Options = dict[str, tuple[Any, ...]]
"""Options of a command by name: the type, the default (... where it is required) and the help."""
_shown: list[str] = []  # what was printed, whose warnings need not be repeated


def command(**tables: Options) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Turn a function of tables of options, which returns an exit code or None, into a command."""

    def decorate(function: Callable[..., int | None]) -> Callable[..., None]:
        hints, only = get_type_hints(function, include_extras=True), Parameter.KEYWORD_ONLY
        own = [each for each in signature(function).parameters.values() if each.name not in tables]
        made = [each.replace(kind=only, annotation=hints[each.name]) for each in own]
        listed = list(chain(*(each.items() for each in tables.values())))
        needed = [option for option, (_, default, _) in listed if default is ...]
        for option, (kind, default, text) in listed:
            flags = (f"--{option.replace('_', '-')}",) if kind is bool else ()
            if default is ...:
                kind, default, text = kind | None, None, f"{text} (required)"
            shown: Any = Annotated[kind, typer.Option(*flags, help=text)]
            made.append(Parameter(option, only, default=default, annotation=shown))

        @wraps(function)
        def run(**values: Any) -> None:
            absent = [f"--{each.replace('_', '-')}" for each in needed if not values[each]]
            given = {name: {o: values.pop(o) for o in table} for name, table in tables.items()}
            with _errors_reported(run.__name__):
                refuse([f"{', '.join(absent)} must be given"] if absent else [])
                code = function(**values, **given)
                sys.stdout.flush()
            if code:
                raise typer.Exit(code)

        parts = (function.__doc__ or "").split("\n\n")
        run.__doc__ = "\n\n".join(" ".join(part.split()) for part in parts)
        run.__name__ = function.__name__.strip("_").replace("_", "-")
        run.__signature__ = Signature(made)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in made}
        return run

    return decorate


def argument(text: str, **more: Any) -> Any:
    """An argument of a command, with its help."""
    return typer.Argument(help=text, **more)


StoreName = Annotated[str, typer.Argument(help="A SQLite file or a database URL.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
SAVING: Options = {
    "out": (Path | None, None, "Save the result as JSON."),
    "force": (bool, False, "Replace an existing file; never a store."),
    "key": (Path | None, None, "Sign the file with this private key (see tether keygen)."),
}
"""The options of a result that can be saved."""
TARGET: Options = {
    "promise": (list[str] | None, None, "The expected loss to promise; NAME=VALUE for several."),
    "alpha": (list[str] | None, None, "The tolerated loss of the paper's rule, not a promise."),
    "confidence": (float | None, None, "Promise with this probability, not on average."),
    "plot": (Path | None, None, "Draw the risk into this file (.png, .svg)."),
}
"""The options that say what is asked for, of a beta or of a threshold."""


@dataclass(frozen=True)
class Output:
    """Where a command saves its result, if anywhere; checked before anything is computed."""

    out: Path | None
    force: bool = False
    key: Path | None = None
    plot: Path | None = None

    def problems(self, *inputs: str | Path | None) -> list[str]:
        """Why the result cannot be saved or drawn there, next to the files that are read."""
        if self.out is None and (self.key is not None or self.force):
            return ["--key and --force are for the file that --out names"]
        try:
            if self.plot is not None:
                files.require_target(self.plot, overwrite=True)
            if self.out is not None:
                files.require_target(self.out, *inputs, self.key, overwrite=self.force)
            if self.key is not None:
                signing.read_private_key(self.key)
        except (ValueError, OSError) as error:
            return [str(error)]
        return []

    def show(
        self, result: Any, *, as_json: bool, text: str | None = None, plain: Any = None
    ) -> None:
        """Print a result, or `plain` as JSON, after saving and drawing it where files are named."""
        if self.out is not None:
            signed = {} if self.key is None else {"key": self.key}
            result.save(self.out, overwrite=self.force, **signed)
        if self.plot is not None:
            result.plot().savefig(self.plot, dpi=200)
        show(plain if plain and as_json else result, as_json=as_json, text=text)
        if self.out is not None and not as_json:
            print_line(f"  saved in {self.out}{'' if self.key is None else ', signed'}")


def refuse(problems: Iterable[str]) -> None:
    """Raise one error for everything that is wrong, if anything is."""
    if text := "; ".join(problems):
        raise ValueError(text)


@contextmanager
def _errors_reported(name: str) -> Iterator[None]:
    """Turn an error about the input into one line on stderr and exit code 2, Ctrl-C into 130.

    A reader that has seen enough, as in `tether status run.db | head`, is not an error (exit code
    141). Bars show the steps of what takes long, and warnings are printed after the result.
    """
    kept: list[warnings.WarningMessage] = []
    try:
        with progress_bars(), warnings.catch_warnings(record=True) as kept:
            warnings.simplefilter("default", TetherWarning)
            yield
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # an output that is not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(READER_LEFT) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        message = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            message = f"{error.filename}: {error.strerror}"
        if isinstance(error, ModuleNotFoundError) and "pip install" not in message:
            message = how_to_install(f"tether {name}", error) or message
        print_note("error:", "bold red", message)
        raise typer.Exit(INVALID_INPUT) from error
    except KeyboardInterrupt:
        print_note("interrupted", "bold red")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        _print_warnings(kept)


def _print_warnings(kept: list[warnings.WarningMessage]) -> None:
    """Print the warnings that are not in a result, each once."""
    texts: dict[str, None] = {}
    for each in kept:
        if issubclass(each.category, TetherWarning):
            texts[str(each.message)] = None
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    printed = _one_line("\n".join(_shown).replace("\n  ! ", "\n"))
    _shown.clear()
    for message in texts:
        if _one_line(message) not in printed:
            print_note("warning:", "bold yellow", message)


def print_note(heading: str, style: str, message: str = "") -> None:
    """Print one line on stderr."""
    shown = visible(redact_text(_one_line(message)))
    line = Text.assemble((heading, style), " " * bool(message), shown)
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)


def show(result: Any, *, as_json: bool = False, text: str | None = None) -> None:
    """Print a result as text, or as JSON and nothing else."""
    if as_json:
        plain = result.to_dict() if hasattr(result, "to_dict") else result
        print(json.dumps(records.encode(plain), indent=2))
    else:
        print_line(text := text or str(result))
        _shown.append(text)


def print_line(text: str) -> None:
    """Print text as it is; control characters as escapes."""
    typer.echo(visible(text, kept="\n\t"))


def number(option: str, text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number, got {text!r}") from None


def target(given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    """What is asked for, "promise" or "alpha", which are taken out of the options."""
    asked = {name: given.pop(name) for name in ("promise", "alpha")}
    asked = {name: values for name, values in asked.items() if values}
    if len(asked) != 1:
        problems.append("exactly one of --promise and --alpha is needed")
    return {name: numbers(f"--{name}", values) for name, values in asked.items()}


def numbers(option: str, texts: list[str]) -> float | dict[str, float]:
    """One number, or several as NAME=VALUE."""
    if len(texts) == 1 and "=" not in texts[0]:
        return number(option, texts[0])
    return named_numbers(option, texts)


def named_numbers(option: str, texts: list[str]) -> dict[str, float]:
    """The numbers of an option that is given as NAME=VALUE, by name."""
    return {name: number(option, value) for name, value in named(option, texts).items()}


def named(option: str, texts: list[str]) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, by name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals) or name in found:
            raise ValueError(f"{option} must be NAME=VALUE, each name once, got {text!r:.80}")
        found[name] = value
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())
