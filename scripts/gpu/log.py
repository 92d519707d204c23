"""The server's log in the report: whole lines in a file, shortened ones on stdout."""

import logging
import sys
from pathlib import Path

SERVER_LOG = "inference"  # the logger of all its modules
MAX_CHARS = 150


class RecordList(logging.Handler):
    """Collects log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class ShortLines(logging.Formatter):
    """One line of at most MAX_CHARS characters for a record."""

    def format(self, record: logging.LogRecord) -> str:
        return "  log: " + super().format(record).partition("\n")[0][:MAX_CHARS]


def write_log(path: Path) -> None:
    """From now on, write the server's INFO lines to the file and to stdout. Handlers flush each line."""
    logger = logging.getLogger(SERVER_LOG)
    logger.setLevel(logging.INFO)
    to_file, to_stdout = logging.FileHandler(path), logging.StreamHandler(sys.stdout)
    to_file.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s %(levelname)s %(message)s"))
    to_stdout.setFormatter(ShortLines())
    logger.addHandler(to_file)
    logger.addHandler(to_stdout)
