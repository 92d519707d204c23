"""How the log is written: a line of text for each record, or a JSON object for programs that collect them."""

import json
import logging
import sys
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
CHATTY = ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "filelock")


def install(level: str, *, as_json: bool) -> None:
    """Log to standard error from `level` on, and less of what libraries say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if as_json else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonLine(logging.Formatter):
    """The keys that TGI's own JSON log has; an error's traceback besides."""

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
