"""The format of the log: one line of text per record, or one JSON object for log collectors."""

import json
import logging
import sys
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
NOISY_LOGGERS = ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "filelock")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Log to standard error from `level` on; the HTTP libraries only from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


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
        return json.dumps(line, ensure_ascii=False)
