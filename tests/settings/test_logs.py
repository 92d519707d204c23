"""The log as JSON: one object per line."""

import json
import logging
import sys

from settings.logs import JsonFormatter


def record(message: str, *values: object, error: bool = False) -> logging.LogRecord:
    caught = sys.exc_info() if error else None
    return logging.LogRecord("hearth.access", logging.INFO, __file__, 1, message, values, caught)


def test_a_record_is_an_object_on_one_line() -> None:
    line = JsonFormatter().format(record("serving on %s\n%s", "http://[::1]:80", "é"))
    assert "\n" not in line
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("+00:00")
    assert entry == {"level": "INFO", "message": "serving on http://[::1]:80\né", "target": "hearth.access"}


def test_an_error_has_its_traceback() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        entry = json.loads(JsonFormatter().format(record("failed", error=True)))
    assert entry["traceback"].endswith("ValueError: no")
