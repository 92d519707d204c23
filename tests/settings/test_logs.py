"""The log: one line, or one JSON object, per record, whatever it contains."""

import json
import logging
import sys

import pytest

from settings.logs import NOISY_LOGGERS, TEXT, JsonFormatter, TextFormatter, configure_logging


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


FORGED = "/a\n2030-01-01 00:00:00,000 INFO hearth.access request id=1\r\x1b[2K\x85\u2028\u202e"


def lines_of(formatter: logging.Formatter) -> list[str]:
    try:
        raise ValueError(f"no file {FORGED}")
    except ValueError:
        return formatter.format(record("failed: %s", FORGED, error=True)).splitlines()


def test_what_a_client_sent_begins_no_line_of_text() -> None:
    first, *others = lines_of(TextFormatter(TEXT))
    assert first.endswith(
        r"failed: /a\x0a2030-01-01 00:00:00,000 INFO hearth.access request id=1\x0d\x1b[2K\x85\u2028\u202e"
    )
    assert others and all(line.startswith("    ") for line in others)
    assert not any(control in line for line in (first, *others) for control in "\r\x1b\x85\u2028\u202e")


def test_what_a_client_sent_stays_in_its_json_object() -> None:
    (line,) = lines_of(JsonFormatter())
    entry = json.loads(line)
    assert entry["message"] == f"failed: {FORGED}" and entry["traceback"].endswith(FORGED)


def test_the_log_of_the_process_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, NOISY_LOGGERS))}
    root.handlers.clear()
    try:
        configure_logging("info", as_json=False)
        logging.getLogger("hearth.access").info("path=%s", "a\nb")
    finally:
        root.handlers[:] = handlers
        for logger, level in levels.items():
            logger.setLevel(level)  # which also forgets the levels that are enabled
    assert r"path=a\x0ab" in capsys.readouterr().err
