"""Commands on a run or a release that exists: acts of operators, copies, reports, verification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tether._core import files, signing
from tether._core.files import redact_url
from tether.cli.tables import LogFiles, takes_columns
from tether.cli.terminal import (
    VERIFICATION_FAILED,
    ActorOption,
    ForceOption,
    JsonOption,
    KeyOption,
    Options,
    ReasonOption,
    StoreName,
    argument,
    print_line,
    report_errors,
    show,
    with_options,
)


@report_errors
def halt(store: StoreName, reason: ReasonOption, actor: ActorOption = None) -> None:
    """Send all traffic to the safe policy, in every process, until `tether resume`.

    In a release: to the old system.
    """
    from tether.rounds import halt as halt_run
    from tether.rounds.standing_alarm import read_standing

    before = read_standing(store)
    halt_run(store, reason, actor)
    who = "the old system answers all keys" if before.is_release else "the safe policy acts"
    print_line(f"Halted. From the next call on, until `tether resume`, {who}.")
    if before.alarm is not None:
        print_line(f"Alarm {before.alarm.number} stood already: {before.alarm.message}")


@report_errors
def resume(store: StoreName, reason: ReasonOption, actor: ActorOption = None) -> None:
    """Clear the alarms that stand, and record who did it and why."""
    from tether.rounds import resume as clear_alarm
    from tether.rounds.standing_alarm import read_standing

    before = read_standing(store)
    clear_alarm(store, reason, actor)
    then = "The monitors start again with the next action."
    if before.is_release:
        then = "The next key begins a new ramp, at the first share."
    print_line(f"The alarms are cleared. {then}")


@report_errors
def retire(
    store: StoreName,
    number: Annotated[int, argument("The number of the round.", metavar="ROUND")],
    reason: ReasonOption,
    actor: ActorOption = None,
) -> None:
    """Leave the rows of a round out of later calibrations, because its policy is lost.

    Only for reasons that are unrelated to the losses of the round.
    """
    from tether.rounds import retire as retire_round

    retire_round(store, number, reason, actor)
    print_line(f"Round {number} is retired. Its rows stay in the store, with the reason.")


@report_errors
def report(
    store: StoreName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    force: ForceOption = False,
) -> None:
    """Write a report of a run or a release as one HTML file that needs no network."""
    files.require_target(out, overwrite=force)
    from tether.report import write
    from tether.rounds.any_history import read_any_history

    write(read_any_history(store), out, overwrite=force)
    print_line(f"Report: {out}")


@report_errors
def export(
    store: StoreName,
    out: Annotated[Path, argument("The Parquet file to write.")],
    force: ForceOption = False,
    key: KeyOption = None,
) -> None:
    """Write a complete run as one Parquet table, from which every round can be audited."""
    from tether.rounds import export_run
    from tether.rounds.store.chain_signer import chain_signer

    if out.suffix != ".parquet":
        raise ValueError(f"the file must end in .parquet, got {out}")
    sign = None if key is None else chain_signer(key)
    export_run(store, out, overwrite=force, sign=sign)
    print_line(f"Exported: {out}")


@report_errors
def import_run(
    file: Annotated[Path, argument("A file written by `tether export`.")],
    store: StoreName,
    actor: ActorOption = None,
) -> None:
    """Check an exported run completely, and fill a new store from it."""
    from tether.rounds import import_run as import_into_store

    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    import_into_store(file, store, actor=actor)
    print_line(f"Imported into {redact_url(store)}")


@report_errors
def backup(
    store: StoreName,
    out: Annotated[Path, argument("The SQLite file to write.")],
    force: ForceOption = False,
) -> None:
    """Copy an SQLite store while it is being written, and check the copy."""
    from tether.rounds import backup_run

    backup_run(store, out, overwrite=force)
    print_line(f"Backup: {out}")


@report_errors
def sign(
    store: StoreName,
    key: Annotated[Path, typer.Option(help="The private key, see `tether keygen`.")],
    actor: ActorOption = None,
) -> None:
    """Sign everything that a store holds now; `tether verify STORE --key …` checks it."""
    from tether.rounds import sign_store

    sign_store(store, key, actor)
    print_line("Signed. What is written from now on is not covered by this signature.")


@report_errors
def keygen(name: Annotated[Path, typer.Argument(help="Write NAME.key and NAME.pub.")]) -> None:
    """Make a pair of Ed25519 keys: NAME.key signs and stays secret, NAME.pub checks."""
    made = signing.generate_keys(name)
    print_line(f"Private key: {name}{signing.PRIVATE_ENDING} (keep it secret)")
    print_line(f"Public key:  {name}{signing.PUBLIC_ENDING}")
    print_line(f"Key id:      {made}")


VERIFY: Options = {
    "key": (Path | None, None, "The public key that must have signed the file."),
    "log": (str | None, None, "The log that a calibration must come from."),
}


@report_errors
@takes_columns
@with_options(VERIFY)
def verify(
    subject: Annotated[
        str,
        argument(
            "A saved result (found.json), a store or its URL, or an export (run.parquet).",
            metavar="FILE",
        ),
    ],
    columns: Any,
    given: Any,
    as_json: JsonOption = False,
) -> None:
    """Check a saved result or a store: that it is as it was written, and who signed it.

    A result is compared with its digest, a store or an export with its hash chain. With --log, the
    log is read as by `tether calibrate` and calibrated again. Exit codes: 0 if everything that was
    checked holds, 1 if something is wrong, 2 for invalid input.
    """
    key, log = given["key"], given["log"]
    is_run = "://" in subject or files.is_database(Path(subject)) or subject.endswith(".parquet")
    if is_run and log is not None:
        raise ValueError("--log is compared with a saved calibration, not with a run")
    if log is None and columns["proposals"] is not None:
        raise ValueError("--proposals are compared together with --log")
    if is_run:
        from tether.rounds import verify_export, verify_store

        check = verify_export if subject.endswith(".parquet") else verify_store
        result = check(subject, key=key)
    else:
        from tether.control.calibration import Calibration
        from tether.verification import verify_record

        if not Path(subject).is_file():
            raise ValueError(f"there is no file {subject}")
        compared: dict[str, Any] = {}
        if log is not None:
            losses = Calibration.load(subject).losses
            bound: Any = {name: each.bound for name, each in losses.items()}
            bound = bound.get("loss", bound) if len(bound) == 1 else bound
            rows, draws = LogFiles(log, bound=bound, **columns).read()
            compared = {"log": rows, "proposals": draws}
        result = verify_record(Path(subject), key=key, **compared)
    show(result, as_json=as_json)
    if not result.ok:
        raise typer.Exit(VERIFICATION_FAILED)
