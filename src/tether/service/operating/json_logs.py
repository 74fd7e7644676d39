"""Logs as JSON lines, without passwords and control characters."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from tether._core.redact import redact_text

LOGGERS = ("tether.service", "uvicorn", "uvicorn.error")
"""The loggers that a service writes with."""


class JsonLines(logging.Formatter):
    """One JSON object for each record; what `extra={"fields": …}` has is added to it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": redact_text(record.getMessage()),
        }
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = redact_text(self.formatException(record.exc_info))
        return json.dumps(entry, default=str)


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
