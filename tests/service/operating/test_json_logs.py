"""Logs as JSON lines."""

import asyncio
import gc
import io
import json
import logging

import pytest

from tether.service.operating.json_logs import LOGGERS, log_as_json


@pytest.fixture
def lines():
    """What is logged; the loggers are as before afterwards."""
    before = {
        name: (logger.handlers, logger.propagate, logger.level)
        for name, logger in ((name, logging.getLogger(name)) for name in LOGGERS)
    }
    stream = io.StringIO()
    log_as_json(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name, (handlers, propagate, level) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_a_record_is_one_line_without_passwords(lines):
    log = logging.getLogger("tether.service")
    log.info("two\nlines", extra={"fields": {"step": 3}})
    log.error("no route to postgresql://ann:secret@db/x")
    try:
        raise ValueError("postgresql://ann:secret@db/x")
    except ValueError:
        log.exception("failed")
    logging.getLogger("uvicorn.error").info("once")
    found = lines()
    assert (found[0]["event"], found[0]["level"], found[0]["step"]) == ("two\nlines", "info", 3)
    assert "ValueError" in found[2]["traceback"]
    assert "secret" not in json.dumps(found)
    assert [each["event"] for each in found].count("once") == 1


def test_messages_of_unexpected_errors_are_not_logged(lines):
    """They may quote a key of the release, or the body of a request."""
    key = f"user {4700 + 11}"
    try:
        try:
            raise KeyError(key)
        except KeyError as error:
            raise ValueError(f"got {key}") from error
    except ValueError:
        logging.getLogger("tether.service").exception("a request failed")
    (found,) = lines()
    assert key not in found["traceback"]
    assert found["traceback"].count("test_json_logs.py") == 2
    assert found["traceback"].endswith("KeyError")
    assert "\nValueError\n" in found["traceback"]


def test_errors_that_nobody_waited_for_are_lines_too(lines):
    key = f"user {4700 + 11}"

    async def fail():
        raise ValueError(key)

    async def main():
        task = asyncio.create_task(fail())
        await asyncio.wait({task})

    asyncio.run(main())
    gc.collect()
    (found,) = lines()
    assert found["event"] == "Task exception was never retrieved"
    assert found["traceback"].endswith("ValueError")
    assert key not in json.dumps(found)
