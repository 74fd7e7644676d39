"""Rows that wait in a local file while the store is unavailable, until they are delivered to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Self

from tether.rounds import spool_records as records
from tether.rounds.errors import StoreError
from tether.rounds.spool_file import SpoolFile

SPOOL_RENEWAL_BYTES = 2**20
"""A spool larger than this is replaced by an empty one once everything in it was delivered."""
_LANE_BYTES = 8
_MAX_LANE = 2**63 - 1


@dataclass(frozen=True, eq=False)
class SpoolRecord:
    """What one call appended: `count` rows with the numbers from `first` on.

    Attributes
    ----------
    number : int
        The number of the record: 1, 2, 3, ... in the life of the spool.
    first : int
        The number of its first row. Rows are numbered from 1 on, without gaps.
    count : int
        How many rows it has.
    columns : dict
        What was appended.
    """

    number: int
    first: int
    count: int
    columns: dict[str, Any]


class Spool:
    """An append-only file of rows, owned by one process and durable when a call returns.

    A row is identified by (lane, number), and keeps both for good. So a consumer that delivered a
    record and failed before `mark_delivered` recognizes its rows when it delivers them again.

    Parameters
    ----------
    path : str or Path
        The file; created with mode 0600 if it does not exist.
    lane : int, optional
        The lane of its rows, at least 0. Needed to create a spool; an existing one must have it.

    Attributes
    ----------
    lane : int
        The lane of its rows.

    Raises
    ------
    StoreError
        If another process has the spool, or the file is damaged or is not a spool.
    """

    def __init__(self, path: str | Path, *, lane: int | None = None) -> None:
        if lane is not None and not 0 <= lane <= _MAX_LANE:
            raise ValueError(f"lane must be an integer from 0 to 2**63 - 1, got {lane!r}")
        self._path = Path(path)
        self._guard = RLock()
        self._undelivered: deque[tuple[records.Head, int]] = deque()
        self._next_number = self._next_row = 1
        self._delivered = 0
        self._file = SpoolFile(self._path, create=lane is not None)
        try:
            self.lane = self._recover(lane)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the file, for other processes too."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many records have not been delivered."""
        return len(self._undelivered)

    def append(self, columns: Mapping[str, Any], count: int) -> SpoolRecord:
        """Add rows; they are on the disk when this returns.

        Parameters
        ----------
        columns : mapping
            Arrays, bytes or JSON values by name. Nothing is pickled.
        count : int
            The number of rows, at least 1.

        Returns
        -------
        SpoolRecord
            The record with its numbers.

        Raises
        ------
        StoreError
            If the file cannot be written, for example on a full disk. It is as it was before.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count!r}")
        content = records.encode_columns(columns)
        with self._guard:
            head = records.Head(
                records.ROWS, self._next_number, self._next_row, count, len(content)
            )
            place = self._file.append(records.write_record(head, content))
            self._note_rows(head, place)
        return SpoolRecord(head.number, head.first, count, dict(columns))

    def read(self) -> Iterator[SpoolRecord]:
        """The records that have not been delivered, in order.

        Yields
        ------
        SpoolRecord
            One record after the other.
        """
        with self._guard:
            undelivered = list(self._undelivered)
        for head, place in undelivered:
            with self._guard:
                if head.number <= self._delivered:
                    continue
                raw = self._file.read(place, head.total_bytes)
            if not records.is_whole(raw):
                raise StoreError(f"record {head.number} of the spool {self._path} is damaged")
            columns = records.decode_columns(records.content_of(raw))
            yield SpoolRecord(head.number, head.first, head.count, columns)

    def mark_delivered(self, upto: int) -> None:
        """Note that all records up to a number are in the store; `read` leaves them out for good.

        Parameters
        ----------
        upto : int
            The number of the last record that was delivered. A smaller one than before changes
            nothing.
        """
        with self._guard:
            if not 0 <= upto < self._next_number:
                raise ValueError(f"upto must be from 0 to {self._next_number - 1}, got {upto!r}")
            if upto <= self._delivered:
                return
            head = records.Head(records.DELIVERED, upto, 0, 0, 0)
            self._file.append(records.write_record(head))
            self._note_delivered(upto)
            if not self._undelivered and self._file.end > SPOOL_RENEWAL_BYTES:
                with suppress(OSError):  # it can also grow for longer
                    self._file.replace(self._header(self.lane))

    def _recover(self, lane: int | None) -> int:
        """Read the whole file, or begin a new one; the lane."""
        header = self._header(0 if lane is None else lane)
        raw = self._file.read(0, len(header))
        if lane is not None and raw != header and header.startswith(raw):
            self._file.cut(0)  # new, or torn before anything was confirmed
            self._file.append(header)
            self._file.make_name_durable()
            raw = header
        known = self._read_header(raw)
        if lane not in (None, known):
            raise ValueError(f"lane must be {known}, as in the spool {self._path}, got {lane}")
        for head, place in self._file.scan(len(header)):
            if head.kind == records.DELIVERED and self._delivered < head.number < self._next_number:
                self._note_delivered(head.number)
            elif (head.kind, head.number, head.first) == (
                records.ROWS,
                self._next_number,
                self._next_row,
            ):
                self._note_rows(head, place)
            else:
                raise StoreError(
                    f"the spool {self._path} is damaged: at byte {place} is record {head.number} "
                    f"where record {self._next_number} belongs"
                )
        return known

    def _header(self, lane: int) -> bytes:
        content = lane.to_bytes(_LANE_BYTES, "little")
        head = records.Head(records.HEADER, self._next_number, self._next_row, 0, len(content))
        return records.write_record(head, content)

    def _read_header(self, raw: bytes) -> int:
        head = records.read_head(raw)
        if head is None or head.kind != records.HEADER or not records.is_whole(raw):
            raise StoreError(f"{self._path} is not a spool of tether, or its beginning is damaged")
        self._next_number, self._next_row = head.number, head.first
        self._delivered = head.number - 1
        return int.from_bytes(records.content_of(raw), "little")

    def _note_rows(self, head: records.Head, place: int) -> None:
        self._undelivered.append((head, place))
        self._next_number += 1
        self._next_row += head.count

    def _note_delivered(self, upto: int) -> None:
        self._delivered = upto
        while self._undelivered and self._undelivered[0][0].number <= upto:
            self._undelivered.popleft()
