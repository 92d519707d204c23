"""The format of the log: one line of text per record, or one JSON object for log collectors.

Records can contain what a stranger sent: characters that begin a line or change a terminal are escaped, and
the lines of a traceback are indented, so that nothing looks like another record.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
TRACEBACK_INDENT = "    "
# C0 and C1 controls, DEL, line and paragraph separators, and what changes the direction of text.
CONTROLS = (
    *range(32),
    *range(127, 160),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
TEXT_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in CONTROLS}
JSON_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS}
NOISY_LOGGERS = ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "filelock")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Log to standard error from `level` on; the HTTP libraries only from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """One line per record, and the indented lines of its traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(TEXT_ESCAPES)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(TRACEBACK_INDENT + line.translate(TEXT_ESCAPES) for line in lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per record, with the keys of TGI's JSON log and, for an exception, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
            "target": record.name,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False).translate(JSON_ESCAPES)
