"""What the commands share: printing results, reporting errors, exit codes.

Text from a file, a store or an error is shown as it is, never as markup, and its control
characters as escapes; a database is shown without its password.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from tether._core import files, records, signing
from tether._core.extras import how_to_install
from tether._core.redact import is_well_formed, redact_message, redact_text, redact_url
from tether._core.text_hints import number_hint
from tether._core.visible_text import visible, visible_lines
from tether.cli.progress_bars import progress_bars
from tether.cli.shown_warnings import warnings_beside, warnings_kept

VERIFICATION_FAILED = 1
INVALID_INPUT = 2
NOTHING_PASSES = 3
ALARM_STANDS = 4
INTERRUPTED = 130
READER_LEFT = 141
"""Exit codes other than 0."""
SECONDS_BETWEEN_LOOKS = 0.1
"""How often a calculation in the background is asked whether it has finished."""

StoreName = Annotated[str, typer.Argument(help="A SQLite file or a database URL.")]
ActorOption = Annotated[
    str | None,
    typer.Option(help="Who does this; by default the name of the operating system's user."),
]


def _number(text: str) -> float:
    """A number, with a hint where it is written in percent or with a comma."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number{number_hint(text)}") from None


PromiseOption = Annotated[
    float | None,
    typer.Option(
        parser=_number,
        metavar="FLOAT",
        help="The whole bound on the expected loss that may be stated.",
    ),
]
AlphaOption = Annotated[
    float | None,
    typer.Option(
        parser=_number, metavar="FLOAT", help="The tolerated expected loss, instead of --promise."
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing file; never a store.")
]
KeyOption = Annotated[
    Path | None, typer.Option(help="Sign the file with this private key (see tether keygen).")
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="The most rows to read from a file. (default: as many as fit into memory)"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Printable(Protocol):
    """A result that prints as text and converts to plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        ...


class Savable(Printable, Protocol):
    """A result that can also be saved."""

    def save(self, path: str | Path, *, overwrite: bool = False, key: Path | None = None) -> None:
        """Write as JSON."""
        ...


@dataclass(frozen=True)
class Output:
    """Where a command saves its result, if anywhere; checked before anything is computed."""

    path: Path | None
    force: bool = False
    key: Path | None = None

    def check(self, *inputs: Path | None) -> None:
        """Raise unless the result can be saved there, next to the files that are read."""
        if self.path is None:
            if self.key is not None or self.force:
                raise ValueError("--key and --force are for the file that --out names")
            return
        files.require_other_file(self.path, *inputs, self.key)
        files.require_target(self.path, overwrite=self.force)
        if self.key is not None:
            signing.read_private_key(self.key)


def report_errors(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn an error about the input into one line on stderr and exit code 2, Ctrl-C into 130.

    A reader of the output that has seen enough, as in `tether status run.db | head`, is no error of
    the input: nothing is said, and the exit code is that of other programs, 141. Bars show the
    steps of what takes long.
    """

    @wraps(command)
    def guarded(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        store = options.get("store")
        try:
            if isinstance(store, str):
                _check_store(store)
            with progress_bars():
                result = command(*arguments, **options)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            _forget_output()
            raise typer.Exit(READER_LEFT) from None
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            message = str(error) or f"{type(error).__name__}"
            if isinstance(error, ModuleNotFoundError) and "pip install" not in message:
                message = how_to_install(f"tether {_command_name(command)}", error) or message
            if isinstance(store, str):
                message = redact_message(message, store)
            print_error("error:", message)
            raise typer.Exit(INVALID_INPUT) from error
        except KeyboardInterrupt:
            print_error("interrupted", "")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            _print_warnings("")  # of a calculation without a result

    return guarded


def _forget_output() -> None:
    """Send what is left to print nowhere, so that ending the program does not fail on it."""
    with suppress(OSError, ValueError):  # an output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command_name(command: Callable[..., Any]) -> str:
    return command.__name__.strip("_").replace("_", "-")


def _check_store(store: str) -> None:
    """Refuse a URL whose password could be taken for another part, and be shown by the driver.

    A saved result, which has the form of JSON, is told to be no store.
    """
    if "://" not in store and Path(store).is_file():
        with open(store, "rb") as file:
            begins = file.read(64).lstrip()
        if begins.startswith(b"{"):
            raise ValueError(
                f"{store} is a JSON file, such as a saved calibration, and not the store of a run "
                f"or a release, which is a SQLite file or a database URL. A saved calibration is "
                f"drawn in Python: tether.Calibration.load({store!r}).plot().savefig('found.png')"
            )
    if not is_well_formed(store):
        raise ValueError(
            f"store must be a path or a database URL, got {redact_url(store)!r}: in a URL the "
            f"characters @ : / ? # of a user or password must be percent-encoded, and the port "
            f"must be a number"
        )


def run_interruptibly(calculation: Callable[[], Result]) -> Result:
    """Run a calculation that writes nothing in a thread, so that Ctrl-C ends the process at once.

    Reading a file or sorting a long array takes seconds in which the main thread would not see
    the signal. The process ends without waiting for the thread, which cannot be stopped. Bars show
    the steps of the calculation; its warnings are printed after its result.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(calculation())
        except BaseException as error:
            errors.append(error)

    try:
        with progress_bars(), warnings_kept():
            thread = Thread(target=copy_context().run, args=(work,), daemon=True)
            thread.start()
            while thread.is_alive():
                thread.join(SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        Console(stderr=True).show_cursor()  # the thread may have begun another step
        print_error("interrupted", "")
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    if errors:
        raise errors[0]
    return results[0]


def print_error(heading: str, message: str) -> None:
    """Print one line on stderr."""
    _print_on_stderr(heading, "bold red", message)


def _print_warnings(printed: str) -> None:
    """Print the warnings of a calculation that are not in the result."""
    for message in warnings_beside(printed):
        _print_on_stderr("warning:", "bold yellow", message)


def _print_on_stderr(heading: str, style: str, message: str) -> None:
    shown = visible(redact_text(_one_line(message)))
    line = Text.assemble((heading, style), " " * bool(message), shown)
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)


def require_one_target(alpha: float | None, promise: float | None) -> None:
    """Raise unless one of the two options was given."""
    if (alpha is None) == (promise is None):
        raise ValueError("pass exactly one of --promise and --alpha")


def require_file(path: Path) -> None:
    """Raise unless there is a file at this path."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")


def show(result: Printable, *, as_json: bool = False) -> None:
    """Print a result as text, or as JSON and nothing else; warnings that it lacks on stderr."""
    if as_json:
        print(json.dumps(records.encode(result.to_dict()), indent=2))
        _print_warnings("")
    else:
        print_line(text := str(result))
        _print_warnings(text)


def show_and_save(result: Savable, out: Output, *, as_json: bool) -> None:
    """Print a result, after saving it where a file is named."""
    if out.path is not None:
        result.save(out.path, overwrite=out.force, key=out.key)
    show(result, as_json=as_json)
    if out.path is not None and not as_json:
        print_line(f"  saved in {out.path}{'' if out.key is None else ', signed'}")


def print_line(text: str) -> None:
    """Print text as it is, without wrapping or highlighting; control characters as escapes."""
    Console(highlight=False, markup=False, emoji=False, soft_wrap=True).print(visible_lines(text))


def _one_line(text: str) -> str:
    """Text without line breaks and repeated spaces."""
    return " ".join(text.split())
