"""Training runs that do nothing but record what they are asked: tests resolve their promises."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inference.errors import BadRequest, NotFound
from tuning.runs.promise import Promise
from tuning.runs.sessions import SessionFinished
from tuning.runs.types import RunCheckpoint, RunInfo, RunOptions, RunRequest, SamplingSession

SESSION = "s1"
RUN = f"{SESSION}:train:0"
SAMPLER = f"{SESSION}:sample:0"
SNAPSHOT = f"{SESSION}:sample:1"
ADAPTER = "trained"
CHECKPOINT = f"tinker://{RUN}/weights/x"  # served as ADAPTER
EXTERNAL = f"tinker://{RUN}/external_weights/x"


@dataclass
class ScriptedRuns:
    """One run, one sampling session of the base and one of an adapter; a session `closed` is finished.

    folder  of the only checkpoint, an external one
    """

    folder: Path = Path()

    submitted: list[tuple[str, int, RunRequest]] = field(default_factory=list)
    created: list[RunOptions] = field(default_factory=list)
    promises: dict[str, Promise] = field(default_factory=dict)
    pending_samples: "ScriptedPending" = field(default_factory=lambda: ScriptedPending())

    def create_session(self, user_metadata: Any, display_name: Any, sdk_version: str) -> str:
        return SESSION

    def heartbeat(self, session_id: str) -> None:
        if session_id == "closed":
            raise SessionFinished(session_id)
        if session_id != SESSION:
            raise NotFound(f"there is no session {session_id}")

    def finish(self, session_id: str) -> None:
        self.heartbeat(session_id)

    def create_run(self, session_id: str, model_seq_id: int, options: RunOptions) -> Promise:
        if options.base_model != "fake/model":
            raise BadRequest("base_model", "must be fake/model", options.base_model)
        self.created.append(options)
        return self.promise_of(f"{session_id}:train:{model_seq_id}:0")

    def submit(self, run_id: str, seq_id: int, request: RunRequest) -> Promise:
        if run_id != RUN:
            raise NotFound(f"there is no run {run_id}")
        self.submitted.append((run_id, seq_id, request))
        return self.promise_of(f"{run_id}:{seq_id}")

    def promise_of(self, request_id: str) -> Promise:
        return self.promises.setdefault(request_id, Promise(request_id))

    def promise(self, request_id: str) -> Promise:
        if request_id not in self.promises:
            raise NotFound(f"there is no request {request_id}")
        return self.promises[request_id]

    def require_unfinished(self, id: str) -> None:
        if id.startswith("closed:"):
            raise BadRequest("session_id", "is finished: create a new session", "closed")

    def unload(self, run_id: str) -> None: ...

    def run(self, run_id: str) -> RunInfo:
        return RunInfo(
            id=run_id, session_id=SESSION, options=RunOptions(base_model="alias"), created=1, folder=""
        )

    def open_run(self, run_id: str) -> RunInfo:
        self.require_unfinished(run_id)
        return self.run(run_id)

    def checkpoints(self, run_id: str | None = None) -> list[RunCheckpoint]:
        options = RunOptions(base_model="alias")
        checkpoint = RunCheckpoint(
            id=EXTERNAL,
            run_id=RUN,
            kind="external_weights",
            name="x",
            created=1,
            num_bytes=3,
            folder="",
            options=options,
        )
        return [checkpoint]

    def checkpoint(self, path: str) -> RunCheckpoint:
        if path != EXTERNAL:
            raise NotFound(f"there is no checkpoint {path}")
        return self.checkpoints()[0]

    def checkpoint_folder(self, path: str) -> Path:
        self.checkpoint(path)
        return self.folder

    def sampler(self, sampler_id: str) -> SamplingSession:
        adapters = {SAMPLER: "", SNAPSHOT: ADAPTER}
        if sampler_id not in adapters:
            raise NotFound(f"there is no sampling session {sampler_id}")
        return SamplingSession(
            id=sampler_id,
            session_id=SESSION,
            base_model="fake/model",
            created=1,
            adapter=adapters[sampler_id],
        )

    def open_sampler(self, sampler_id: str) -> SamplingSession:
        self.require_unfinished(sampler_id)
        return self.sampler(sampler_id)

    def served_model(self, base_model: str | None, model_path: str | None) -> str:
        if base_model is None and model_path is None:
            raise BadRequest("base_model", "or model_path must be there")
        if model_path not in (None, CHECKPOINT):
            raise NotFound(f"there is no checkpoint {model_path}")
        return ADAPTER if model_path else ""


@dataclass
class ScriptedPending:
    """PendingSamples in memory. by_client: the ids of requests, which a test may put there."""

    by_client: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def add(self, request_id: str, sampler_id: str, clone: int) -> None:
        self.by_client.setdefault((sampler_id, clone), []).append(request_id)

    def remove(self, request_id: str) -> None:
        for ids in self.by_client.values():
            ids[:] = [each for each in ids if each != request_id]

    def ids(self, sampler_id: str, clone: int) -> list[str]:
        return list(self.by_client.get((sampler_id, clone), ()))

    def next_clone(self, sampler_id: str) -> int:
        return 7


def service_of(runs: ScriptedRuns) -> Any:
    """What create_app takes as the tuning service."""
    return SimpleNamespace(runs=runs)
