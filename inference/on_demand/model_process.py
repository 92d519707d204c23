"""The process of one model: a Hearth of its own behind a private Unix socket, or a port with a key.

The child reads its settings from its standard input. What it prints comes back through a pipe: the report of
its checks and its downloads as JSON, which say why and how far; all other lines are passed on.
"""

import asyncio
import contextlib
import json
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import IO

from inference.backend_info import ModelInfo
from inference.errors import without_folders
from inference.on_demand.load_progress import STALL_S, limit_stalls
from inference.on_demand.managed_model import LoadFailed
from inference.on_demand.model_adapters import ModelAdapters
from inference.process.child_program import ROOT, ChildProgram, describe_exit
from inference.process.listen_address import is_listening
from inference.process.memory import memory_shortage
from inference.remote.failures import UpstreamFailure
from inference.remote.upstreams import link
from settings.remote_model import RemoteModel
from settings.schema import Settings

PROGRAM = ROOT / "serve_model.py"
POLL_S = 0.05
OWN_NAME = "hearth: "
NO_MEMORY = OWN_NAME + memory_shortage.NOT_ENOUGH  # begins the sentence of a start without memory
REPORT_KEYS = {"findings", "report", "total_bytes"}  # of the checks, of the memory, of a download
STOP_TIMEOUT_S = 20.0
SLEEP_TIMEOUT_S = 10.0  # what it releases is released at once
READ_TIMEOUT_S = 2.0  # after its end: a child of its own may have its output open
KILL_TIMEOUT_S = 5.0  # a process that waits for a network disk may outlast SIGKILL

log = logging.getLogger(__name__)


def ignore(cpu_s: float) -> None:
    """Take no note of the CPU time that a load has used."""


class ModelProcess:
    """A child process, from its start to its end.

    model     as the server reaches it while the process runs
    settings  of the process: its host is the socket that it listens on, or the address of its port
    adapters  that the process gets when it has started; None: those of its settings
    """

    def __init__(self, model: RemoteModel, settings: Settings, adapters: ModelAdapters | None = None) -> None:
        self._model = model
        self._name = model.name
        self._settings = replace(settings, lora_adapters=adapters.items) if adapters else settings
        self._adapters = adapters
        self._process: ChildProgram | None = None
        self._progress = ""
        self._remaining_s: float | None = None
        self._problem = ""
        self._reclaimable_bytes = 0
        self._is_asleep = False

    @property
    def progress(self) -> str:
        return self._progress

    @property
    def remaining_s(self) -> float | None:
        return self._remaining_s

    @property
    def reclaimable_bytes(self) -> int:
        return self._reclaimable_bytes

    @property
    def is_asleep(self) -> bool:
        return self._is_asleep

    async def start(self, note_cpu_s: Callable[[float], None] = ignore) -> ModelInfo:
        process = self._launch()
        async with self._limit_stalls(process, note_cpu_s):
            return await self._wait_until_ready(process)

    async def sleep(self) -> None:
        try:
            async with asyncio.timeout(SLEEP_TIMEOUT_S):
                await link.put_to_sleep(self._model)
        except TimeoutError:
            raise LoadFailed(f"{self._name} did not sleep within {SLEEP_TIMEOUT_S:.0f} s") from None
        except UpstreamFailure as failure:
            raise LoadFailed(failure.error.message) from None
        self._is_asleep = True

    async def wake_up(self) -> None:
        assert self._process is not None
        try:
            async with self._limit_stalls(self._process):
                await link.wake_up(self._model)
                if self._adapters:
                    await self._adapters.restore()
        except UpstreamFailure as failure:
            raise LoadFailed(failure.error.message) from None
        self._is_asleep = False

    @contextlib.asynccontextmanager
    async def _limit_stalls(
        self, process: ChildProgram, note_cpu_s: Callable[[float], None] = ignore
    ) -> AsyncIterator[None]:
        """Raise LoadFailed in the block once the process gets no further."""
        try:
            async with limit_stalls(process.pid, STALL_S, note_cpu_s):
                yield
        except TimeoutError:
            details = f" ({self._progress})" if self._progress else ""
            raise LoadFailed(
                f"{self._name}: the load made no progress for {STALL_S:.0f} s{details}: "
                "check the disk or the network that its files come from"
            ) from None

    def _launch(self) -> ChildProgram:
        command = (sys.executable, str(PROGRAM))
        self._process = process = ChildProgram(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin and process.stdout
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), name=f"model {self._name}")
        self._reader.start()
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pickle.dump(self._settings, pipe)
        return process

    async def _wait_until_ready(self, process: ChildProgram) -> ModelInfo:
        while not is_listening(self._settings.host, self._settings.port):
            if process.poll() is not None:
                await asyncio.to_thread(self._reader.join, READ_TIMEOUT_S)  # what it said last is the reason
                raise LoadFailed(f"{self._name}: {self._problem or describe_end(process.returncode)}")
            await asyncio.sleep(POLL_S)
        try:
            if self._adapters:
                await self._adapters.restore()
            self._reclaimable_bytes = await link.fetch_reclaimable_bytes(self._model)
            return await link.fetch_info(self._model)
        except UpstreamFailure as failure:
            raise LoadFailed(failure.error.message) from None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the process. timeout_s: from SIGTERM to SIGKILL"""
        process = self._process
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.wait()
        if process.poll() is not None:
            return
        process.kill()
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await self.wait()
        except TimeoutError:
            log.error(
                "event=model_process_stuck model=%s pid=%d: it outlasts SIGKILL", self._name, process.pid
            )

    async def wait(self) -> int:
        assert self._process is not None
        while (code := self._process.poll()) is None:
            await asyncio.sleep(POLL_S)
        return code

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_TIMEOUT_S)

    def _read(self, output: IO[bytes]) -> None:
        """Read what the child prints until it ends. On a thread of its own."""
        for printed in output:
            text = printed.decode(errors="replace").rstrip("\r\n")
            if text.startswith(NO_MEMORY):
                self._problem = text.removeprefix(OWN_NAME)
            if not (text.startswith("{") and self._note(text)):
                print(f"[{self._name}] {text}", file=sys.stderr, flush=True)

    def _note(self, text: str) -> bool:
        """Whether the text is a report of checks, memory or a download; what matters of it is noted."""
        try:
            report = json.loads(text)
        except ValueError:
            return False
        if "total_bytes" in report:
            self._progress, self._remaining_s = report["message"], report["eta_seconds"]
        elif "findings" in report:
            refusals = [describe_refusal(finding) for finding in report["findings"] if not finding["ok"]]
            for refusal in refusals:
                print(f"[{self._name}] {refusal}", file=sys.stderr, flush=True)
            self._problem = without_folders("; ".join(refusals))
        return bool(REPORT_KEYS & report.keys())


def describe_refusal(finding: Mapping[str, str]) -> str:
    """A finding of the checks that refuses the model, as one sentence."""
    fix = f": {finding['fix']}" if finding["fix"] else ""
    return f"{finding['name']} needs {finding['need']}, and there is {finding['have']}{fix}"


def describe_end(code: int) -> str:
    """Why a process without a report has ended."""
    reason = describe_exit(code).replace("it", "its process", 1)
    return f"{reason}: the server's log says why" if code >= 0 else reason
