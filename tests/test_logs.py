"""The log as JSON: each line an object."""

import json
import logging
import sys

from logs import JsonLine


def record(message: str, *values: object, error: bool = False) -> logging.LogRecord:
    caught = sys.exc_info() if error else None
    return logging.LogRecord("hearth.access", logging.INFO, __file__, 1, message, values, caught)


def test_a_record_is_an_object_on_one_line() -> None:
    line = JsonLine().format(record("serving on %s\n%s", "http://[::1]:80", "é"))
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("timestamp").endswith("+00:00")
    assert told == {"level": "INFO", "message": "serving on http://[::1]:80\né", "target": "hearth.access"}


def test_an_error_has_its_traceback() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        told = json.loads(JsonLine().format(record("failed", error=True)))
    assert told["traceback"].endswith("ValueError: no")
