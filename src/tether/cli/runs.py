"""Commands on a run that exists, of either kind: look at it, act on it, copy it, verify it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from tether._core import files, signing
from tether.cli.tables import LOG_OPTIONS, read_log
from tether.cli.terminal import (
    ALARM_STANDS,
    VERIFICATION_FAILED,
    JsonOption,
    Options,
    StoreName,
    argument,
    command,
    named_numbers,
    print_line,
    show,
)

SECONDS_TO_WAIT = 60.0
"""How long a command may wait for a store that others use."""


def open_run(store: str, key: Path | None = None) -> Any:
    """The run in a store, of whatever kind, without its policies."""
    from tether.runs import Run

    return Run.open(store, deadline=SECONDS_TO_WAIT, key=key)


@command()
def status(store: StoreName, as_json: JsonOption = False) -> int:
    """Show the rounds or steps of a run, with losses, alarms and what is promised.

    Exit code 4 while an alarm stands.
    """
    from tether.view import document

    with open_run(store) as run:
        history = run.history()
    show(document(history) if as_json else history, as_json=as_json)
    return 0 if history.alarm is None else ALARM_STANDS


REPORT: Options = {
    "out": (Path, Path("report.html"), "The HTML file to write."),
    "force": (bool, False, "Replace an existing file."),
}


@command(given=REPORT)
def report(store: StoreName, given: Any) -> None:
    """Write a run as one HTML file that needs no network."""
    from tether.view import write_report

    out, force = given["out"], given["force"]
    files.require_target(out, overwrite=force)
    with open_run(store) as run:
        write_report(run.history(), out, overwrite=force)
    print_line(f"Report: {out}")


ACT: Options = {
    "reason": (str, ..., "Why; it is recorded."),
    "actor": (str | None, None, "Who does this. (default: the user of the operating system)"),
    "signing_key": (Path | None, None, "The private key, if the run is signed."),
}


@contextmanager
def _acting(store: str, given: dict[str, Any]) -> Iterator[Any]:
    """The run to act on; its state is printed afterwards."""
    from tether.view import document

    with open_run(store, given.pop("signing_key")) as run:
        yield run
        found = document(run.history())
    print_line(f"{found['state']['heading']}. {told(found)}")


def told(found: dict[str, Any]) -> str:
    """The present state in a document, and what is promised."""
    state = f"{found['state']['sentence']} {found['state']['details']}".rstrip()
    return f"{state}\n{found['promise']['sentence']}"


@command(given=ACT)
def halt(store: StoreName, given: Any) -> None:
    """Let the safe policy or old system serve alone, in every process, until `tether resume`."""
    with _acting(store, given) as run:
        run.halt(**given)


@command(given=ACT)
def resume(store: StoreName, given: Any) -> None:
    """Clear the alarms that stand, and record who did it and why."""
    with _acting(store, given) as run:
        run.resume(**given)


@command(given=ACT)
def tighten(
    store: StoreName,
    changes: Annotated[
        list[str], argument("NAME=VALUE: a smaller guardrail, growth or outcome_deadline.")
    ],
    given: Any,
) -> None:
    """Tolerate less from now on; loosening needs a new run."""
    with _acting(store, given) as run:
        run.tighten(**given, **named_numbers("CHANGES", changes))


@command(given=ACT)
def retire(
    store: StoreName,
    number: Annotated[int, argument("The number of the round.", metavar="ROUND")],
    given: Any,
) -> None:
    """Leave the rows of a round out of later calibrations, because its policy is lost.

    Only for reasons that are unrelated to the losses of the round.
    """
    with open_run(store, given.pop("signing_key")) as run:
        run.retire(number, **given)
    print_line(f"Round {number} is retired. Its rows stay in the store, with the reason.")


@command()
def export(
    store: StoreName,
    target: Annotated[str, argument("A new file, or the URL of a database without a run.")],
) -> None:
    """Copy a run that may be in use, as of one moment: a backup, or a file for auditors."""
    with open_run(store) as run:
        run.export(target)
    print_line("Exported.")


@command()
def import_(
    source: Annotated[str, argument("A file written by `tether export`.")], store: StoreName
) -> None:
    """Check an exported run, and fill an empty store with it, where it continues."""
    from tether.runs import import_run

    import_run(source, store)
    print_line("Imported.")


@command()
def keygen(name: Annotated[Path, argument("Write NAME.key and NAME.pub.")]) -> None:
    """Make a pair of Ed25519 keys: NAME.key signs and stays secret, NAME.pub checks."""
    made = signing.generate_keys(name)
    print_line(f"Private key: {name}.key (keep it secret)")
    print_line(f"Public key:  {name}.pub")
    print_line(f"Key id:      {made}")


VERIFY: Options = {
    "key": (Path | None, None, "The public key that must have signed it."),
    "log": (str | None, None, "The log that a calibration must come from."),
}


@command(given=VERIFY, columns=LOG_OPTIONS)
def verify(
    subject: Annotated[
        str, argument("A saved result (found.json), or a store or its URL.", metavar="FILE")
    ],
    columns: Any,
    given: Any,
    as_json: JsonOption = False,
) -> int:
    """Check that a saved result or a store is as it was written, and who signed it.

    A result is compared with its digest; with --log, the log is read as by `tether calibrate` and
    calibrated again. A store is replayed: its chain, its rules, and every decision from its rows.
    The exit code is 1 if something is wrong.
    """
    key, log = given["key"], given["log"]
    if log is None and columns["proposals"] is not None:
        raise ValueError("--proposals is compared together with --log")
    if "://" in subject or files.is_database(Path(subject)):
        if log is not None:
            raise ValueError("--log is compared with a saved calibration, not with a run")
        result = _verify_run(subject, key)
    elif not Path(subject).is_file():
        raise ValueError(f"there is no file {subject}")
    else:
        from tether.control.calibration import Calibration
        from tether.saving import verify_record

        compared: dict[str, Any] = {}
        if log is not None:
            losses = Calibration.load(subject).losses
            bound: Any = {name: each.bound for name, each in losses.items()}
            bound = bound.get("loss", bound) if len(bound) == 1 else bound
            rows, draws = read_log(log, bound, columns)
            compared = {"log": rows, "proposals": draws}
        result = verify_record(Path(subject), key=key, **compared)
    show(result, as_json=as_json)
    return 0 if result.ok else VERIFICATION_FAILED


def _verify_run(store: str, key: Path | None) -> Any:
    """What a replay finds, as a verification."""
    from tether.saving.verify_record import Finding, Verification

    with open_run(store) as run:
        found = [Finding("replay", False, each) for each in run.verify(key)]
        name = run.history().store
    if not found:
        told = "not compared with a public key" if key is None else "signed with this key"
        found = [
            Finding("replay", True, "the chain, the rules and all decisions hold"),
            Finding("signature", None if key is None else True, told),
        ]
    return Verification(name, tuple(found))
