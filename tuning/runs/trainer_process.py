"""The process that trains all runs, as the server sees it: one request at a time, and its reply."""

import contextlib
import dataclasses
import json
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, Internal, ServerError
from inference.process.child_program import describe_exit
from tuning.jobs.process import ChildProcess
from tuning.served_weights import with_served_weights
from tuning.trainer.messages import Arrays, TrainerMessage, read_message, write_message
from tuning.trainer.run_files import BASE_FILE
from tuning.types import TrainingBase

EXIT_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


class TrainerDied(Internal):
    """What only the trainer had is lost."""


class Interrupted(Internal):
    """The request was told to end; its run is as it was before."""


class TrainerProcess:
    """Start it on a thread that lives as long as the process may."""

    def __init__(self, command: Sequence[str], folder: Path, base: TrainingBase, nice: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / BASE_FILE).write_text(json.dumps(dataclasses.asdict(with_served_weights(base))), "utf-8")
        own, other = socket.socketpair()
        with other:
            self._process = ChildProcess(
                command,
                folder,
                threads=base.threads,
                nice=nice,
                connection=other,
            )
        self._socket, self._stream = own, own.makefile("rwb")
        self.resident_bytes = 0  # as of its last reply
        log.info("trainer pid=%d status=running", self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, verb: str, arrays: Arrays | None = None, **fields: Any) -> TrainerMessage:
        """Wait for the reply. Raises BadRequest, Internal, and TrainerDied."""
        reply = None
        with contextlib.suppress(OSError):
            write_message(self._stream, {"verb": verb, **fields}, arrays or {})
            reply = read_message(self._stream)
        if reply is None:
            raise TrainerDied(self._death())
        self.resident_bytes = reply.header["rss"]
        if "error" in reply.header:
            raise to_error(reply.header)
        return reply

    def interrupt(self) -> None:
        """Have a pass in progress raise Interrupted soon. From any thread."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once; a call in progress raises TrainerDied. From any thread."""
        self._process.kill()

    def close(self) -> None:
        """Let it end."""
        self._socket.shutdown(socket.SHUT_RDWR)
        if not self._process.wait(EXIT_TIMEOUT_S):
            self._process.kill()
        self._socket.close()

    def _death(self) -> str:
        self._process.wait(EXIT_TIMEOUT_S)
        self._process.kill()
        code = self._process.exit_code()
        log.error("trainer: %s\n%s", describe_exit(code or 0), self._process.last_words())
        return f"the trainer died: {describe_exit(code or 0)}"


def to_error(header: Mapping[str, Any]) -> ServerError:
    return ERRORS[header["category"]](header["error"])


ERRORS: Mapping[str, Callable[[str], ServerError]] = {
    "user": partial(BadRequest, ""),
    "server": Internal,
    "interrupted": Interrupted,
}
