"""A calibration as a batch job: the files of its log, where they come from, and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tether._core import files
from tether.control.calibration import Calibration
from tether.control.families import find_family
from tether.control.family import Family
from tether.control.log import Log
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.proposals import Proposals
from tether.rounds.calibrate_round import find_beta
from tether.rounds.job_files import LOSS, PROPOSALS, check_file
from tether.rounds.job_record import check_entries, read_entries, to_json
from tether.rounds.job_source import JobSource
from tether.rounds.settings import Settings

_NOT_WRITTEN = {"folder", "family"}
"""What depends on where a job is read."""


@dataclass(frozen=True, kw_only=True)
class CalibrationJob:
    """What `export_calibration` wrote: the log of a calibration in files, and how to calibrate.

    Promised: `calibrate` finds the beta that `Controller.begin` finds from the same rows, to 1e-10
    in log beta; where a run's target is a promise, as closely as the two agree on the stability,
    which is interpolated for mix and for tables. `Controller.begin(policy, job=...)` begins a round
    with it, if it is of that round.

    Parameters
    ----------
    folder : str
        Where the files are.
    run : str
        The run that it is of.
    number : int
        The round that would begin.
    policy : str or None
        The fingerprint of the optimized policy, where it has one.
    lanes : mapping of int to tuple
        How far each lane of the store had come: its last entry in the hash chain, the head of the
        chain there, its last action and its last observation.
    retired : tuple of int
        The rounds whose rows were left out.
    counts : mapping of int to int
        How many of the rows each round's policy produced; 0 is the safe policy.
    reference : int
        The round whose policy beta is measured against; 0 is the safe policy.
    rows : int
        How many rows the log has.
    rows_per_block : int
        How many actions each file is made from at most.
    safe_share : float or None
        The share of rows that the reference produced, where there is a mixture.
    ratio_error : float
        A factor by which densities of past policies may be wrong.
    approximate : str or None
        Why scores are approximate, if they are.
    mixed, tables : bool
        Whether there are columns of a mixture, and tables of all actions.
    note : str
        How many rows have no loss, and how they are treated.
    digests : mapping of str to str
        The digest of each file, by name.
    settings : Settings
        The settings of the run.
    family : Family or None
        The run's family, where it is not one that its name finds.
    """

    folder: str
    run: str
    number: int
    policy: str | None
    lanes: Mapping[int, tuple[int, str, int, int]]
    retired: tuple[int, ...]
    counts: Mapping[int, int]
    reference: int
    rows: int
    rows_per_block: int
    safe_share: float | None
    ratio_error: float
    approximate: str | None
    mixed: bool
    tables: bool
    note: str
    digests: Mapping[str, str]
    settings: Settings
    family: Family | None = None

    def __post_init__(self) -> None:
        check_entries(self._entries)

    @property
    def seen(self) -> str:
        """The last action and observation of each lane, as JSON: as a round keeps it."""
        return json.dumps({str(lane): list(each[2:]) for lane, each in self.lanes.items()})

    def log(self, source: Any = None) -> LogInParts:
        """The log, to be read in parts.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.Source, optional
            The same rows for another engine, such as `tether.scan.ray.source(folder)`; by default
            the files of the folder.

        Returns
        -------
        LogInParts
            The log.
        """
        scanned = Log.scan(
            self._parts if source is None else source,
            context=None,
            loss=[_loss_column(k) for k in range(len(self.settings.limits))],
            log_mix="log_mix" if self.mixed else None,
            log_safe_all="log_safe_all" if self.tables else None,
            log_optimized_all="log_optimized_all" if self.tables else None,
            log_mix_all="log_mix_all" if self.tables and self.mixed else None,
            safe_share=self.safe_share,
        )
        named = tuple((name, _loss_column(k)) for k, name in enumerate(self.settings.limits))
        log = LogInParts(scanned.source, replace(scanned.columns, loss=named), contexts=False)
        log.ratio_error, log.approximate = self.ratio_error, self.approximate
        return log

    def proposals(self) -> ProposalsInParts | None:
        """The draws of both policies, where the log needs them.

        Returns
        -------
        ProposalsInParts or None
            The draws.
        """
        if PROPOSALS not in self.digests:
            return None
        source = JobSource(self.folder, {PROPOSALS: self.digests[PROPOSALS]})
        return Proposals.scan(source, context=None)

    def calibrate(self, source: Any = None) -> Calibration:
        """Calibrate from the files, with the settings of the run.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.Source, optional
            The same rows for another engine, as in `log`.

        Returns
        -------
        Calibration
            What `Controller.begin` would find.

        Raises
        ------
        ValueError
            If a file of the folder is not the one that was written, or rows are missing.
        """
        if source is not None:  # files of the folder are checked whenever they are read
            self.check_files()
        log = self.log(source)
        if len(log) != self.rows:
            raise ValueError(f"source has {len(log):,} rows, but {self.rows:,} were exported")
        family = find_family(self.settings.family) if self.family is None else self.family
        return find_beta(self.settings, family, log, self.proposals())

    def check_files(self) -> None:
        """Check that every file is the one that was written.

        Raises
        ------
        ValueError
            If one is missing, or has changed.
        """
        for name, digest in self.digests.items():
            check_file(self.folder, name, digest)

    def to_json(self) -> str:
        """Everything but the folder and the family, as `read` expects it.

        Returns
        -------
        str
            JSON.
        """
        return to_json(self._entries)

    @classmethod
    def read(cls, folder: str | Path, *, family: Family | None = None) -> CalibrationJob:
        """The job in a folder, also one that was copied to another machine.

        Parameters
        ----------
        folder : str or pathlib.Path
            The folder that `export_calibration` wrote to.
        family : Family, optional
            The run's family, if it is one of your own.

        Returns
        -------
        CalibrationJob
            The job.

        Raises
        ------
        FileNotFoundError
            If the folder has no job that was written completely.
        ValueError
            If what the job says of itself was changed or damaged.
        """
        path = files.as_path("folder", folder).absolute()
        plain = read_entries(path, {each.name for each in fields(cls)} - _NOT_WRITTEN)
        return cls(**plain, folder=str(path), family=family)

    @property
    def log_files(self) -> list[str]:
        """The names of the files of the log, in order."""
        return [name for name in self.digests if not name.startswith("_")]

    @property
    def _parts(self) -> JobSource:
        return JobSource(self.folder, {name: self.digests[name] for name in self.log_files})

    @property
    def _entries(self) -> dict[str, Any]:
        """What is written of it, by name."""
        names = (each.name for each in fields(self) if each.name not in _NOT_WRITTEN)
        return {name: getattr(self, name) for name in names}


def _loss_column(place: int) -> str:
    return LOSS.format(place)
