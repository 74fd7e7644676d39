"""Logs as JSON lines, without passwords, control characters and messages of unexpected errors."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from tether._core.files import redact_text

LOGGERS = ("tether", "uvicorn", "uvicorn.error", "asyncio")
"""The loggers that a service, its run and what it runs on write with."""
MOST_TRACEBACK_LINES = 100
"""How much is logged of where an error came from."""


class JsonLines(logging.Formatter):
    """One JSON object for each record; what `extra={"fields": …}` has is added to it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        text = record.getMessage()
        if record.name == "asyncio":  # then lines that quote the error follow
            text = text.partition("\n")[0]
        entry: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": redact_text(text),
        }
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = redact_text(_places(record.exc_info[1]))
        return json.dumps(entry, default=str)


def _places(error: BaseException | None) -> str:
    """Where an error came from and of which types it is; messages may quote keys or bodies."""
    lines: list[str] = []
    while error is not None and len(lines) < MOST_TRACEBACK_LINES:
        lines += [line.rstrip() for line in traceback.format_tb(error.__traceback__)]
        lines.append(type(error).__name__)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines[:MOST_TRACEBACK_LINES])


def log_as_json(stream: TextIO | None = None) -> None:
    """Let the service and its web server log JSON lines, by default on stderr."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").handlers = []
    logging.getLogger("uvicorn.error").propagate = True
