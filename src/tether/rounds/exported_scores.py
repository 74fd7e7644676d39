"""Scores of calibration rows that a job has in files: read in blocks, and written to the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import numpy as np

from tether._core import validate
from tether._core.types import Floats
from tether.rounds.calibration_job import CalibrationJob
from tether.rounds.job_files import BLOCK_SCORES, read_scores
from tether.rounds.score_columns import BlockScores, ScoreColumns
from tether.rounds.store.score_pieces import in_pieces, piece_rows
from tether.rounds.store.writer import Writer


class _GivenScores(BlockScores):
    """Scores of a block that must be complete: no policy computes any."""

    def read(
        self, name: str, numbers: Collection[int], start: int, stop: int, width: int | None = None
    ) -> dict[int, Floats]:
        """Scores of the rows from `start` to before `stop`, by round."""
        for number in numbers:
            given = self.new.get((name, number))
            if given is not None and given.shape[1:] != (() if width is None else (width,)):
                raise ValueError(
                    f"the job has scores {name!r} of round {number} of shape {given.shape}, "
                    f"expected {'one' if width is None else width} per row"
                )
        return super().read(name, numbers, start, stop, width)

    def _add(self, name: str, number: int, start: int, values: Floats) -> None:
        raise ValueError(f"the job has no scores {name!r} of round {number} at some rows")


class ExportedScores:
    """The scores that policies gave when a job was exported, beside those that the store has."""

    def __init__(self, job: CalibrationJob, stored: ScoreColumns) -> None:
        self._job, self._stored = job, stored
        self._starts: dict[tuple[str, int], int] = {}
        self.files: list[str] = []
        """The names of the files that were read, in the order of their rows."""

    def block(self, place: int, start: int) -> BlockScores:
        """The scores of a block, by its place and its first calibration row."""
        name = BLOCK_SCORES.format(place)
        if name not in self._job.digests:
            raise ValueError(f"the job in {self._job.folder} has no {name}: rows are missing")
        new = read_scores(self._job.folder, name, self._job.digests[name])
        self.files.append(name)
        for (column, number), values in new.items():
            what = f"{name} of the job in {self._job.folder}: {column!r} of round {number}"
            if values.dtype != np.float64:
                raise ValueError(f"{what} must be float64, got {values.dtype}")
            validate.log_probabilities(what, values, ndim=max(1, values.ndim), zero=True)
            first = max(start, self._stored.length(column, number))
            self._starts.setdefault((column, number), first)
        return _GivenScores(self._stored, start, new)

    def save(self, writer: Writer, number: int) -> None:
        """Write them as `ScoreColumns.save` does, one piece after the other."""
        groups: dict[tuple[str, int], list[int]] = defaultdict(list)
        for (name, policy), start in sorted(self._starts.items()):
            groups[name, start].append(policy)
        for (name, start), policies in groups.items():
            for piece in in_pieces(self._values(name, policies)):
                writer.score_pieces(piece_rows(number, name, start, policies, piece))
                start += piece.shape[1]

    def _values(self, name: str, policies: list[int]) -> Iterator[Floats]:
        """The values of policies that have scores from the same row on, in blocks."""
        for file in self.files:
            found = read_scores(self._job.folder, file, self._job.digests[file])
            if (name, policies[0]) in found:
                yield np.stack([found[name, policy] for policy in policies])
