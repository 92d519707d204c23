"""The engine: takes tasks from any thread, computes them in batches on its own thread, delivers step outputs.

Knows the threads and the commands between them; EngineCore runs the steps. Knows no text, HTTP or model.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from itertools import count
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from inference.engine.admission_control import AdmissionControl
from inference.engine.background import BackgroundTask
from inference.engine.banned_tokens import check_any_token_allowed
from inference.engine.core import EngineCore
from inference.engine.engine_thread import EngineThread
from inference.engine.output_queue import Post
from inference.engine.sampling.sampler import Sampler
from inference.engine.scheduler import WaitingServedRatio
from inference.engine.sequence import OutputSink, PromptLogprob, Sequence, Task
from inference.engine_stats import Stats, StepStats
from inference.errors import BadRequest, Internal, ServerError, TooLong, Unavailable
from inference.model.batch import Runner

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Submit:
    sequences: SequenceOf[Sequence]


@dataclass(frozen=True, slots=True)
class Abort:
    sequence_ids: SequenceOf[int]


@dataclass(frozen=True, slots=True)
class RunBackgroundTask:
    background_task: BackgroundTask[Any]


@dataclass(frozen=True, slots=True)
class Stop:
    error: ServerError


Command = Submit | Abort | RunBackgroundTask | Stop


class Engine:
    """Computes tasks on a Runner.

    max_batch_tokens    token budget of a step: each decoding sequence gets one token, prompts share the rest
    max_queued_tokens   prompt tokens that may wait; submit raises Overloaded beyond that
    admission_policy    when waiting sequences join the running ones; at once by default
    prefix_caching      compute common prefixes once, if the runner supports chunked prefill
    speculate           maximum number of draft tokens per sequence and step; 0: no speculative decoding
    prefill_chunk_size  fixed size of prompt chunks, whatever else runs; disables speculative decoding.
                        0: chunks fill the token budget
    """

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        *,
        max_batch_tokens: int,
        max_queued_tokens: int,
        admission_policy: WaitingServedRatio | None = None,
        prefix_caching: bool = True,
        speculate: int = 0,
        prefill_chunk_size: int = 0,
    ) -> None:
        self._admission_control = AdmissionControl(max_queued_tokens)
        self._inbox: SimpleQueue[Command] = SimpleQueue()
        self._ids = count()
        self._stop_error: ServerError | None = None
        self._future: Future[None] | None = None
        admission_policy = admission_policy or WaitingServedRatio()
        self.core = EngineCore(
            runner,
            sampler,
            self._admission_control,
            max_batch_tokens,
            admission_policy,
            prefix_caching,
            speculate,
            prefill_chunk_size,
        )

    def start(self, engine_thread: EngineThread | None = None) -> None:
        """Run the engine on `engine_thread`, by default a new one, until `stop` or a failure."""
        self._future = (engine_thread or EngineThread("engine")).submit(self._run)

    def stop(self) -> None:
        """Accept no more tasks, end all others with Unavailable, and wait for that. Idempotent."""
        error = Unavailable("the server is shutting down")
        self.fail(error)
        if self._future is None:
            self._close(error)
        else:
            self._future.result()

    def fail(self, error: ServerError) -> None:
        """Accept no more tasks and end all others with error. From any thread; returns at once."""
        self._admission_control.close(error.message)
        self._inbox.put(Stop(error))

    def submit(self, tasks: SequenceOf[Task], output_sinks: SequenceOf[OutputSink]) -> list[int]:
        """Queue all tasks or none; each task's outputs go to its sink. Returns ids for `abort`.

        Raises BadRequest or TooLong for a task, Overloaded beyond max_queued_tokens, Unavailable once closed.
        """
        sequences = [self.create_sequence(task, sink) for task, sink in zip(tasks, output_sinks, strict=True)]
        prompt_lens = {sequence.id: len(sequence.task.prompt_token_ids) for sequence in sequences}
        with self._admission_control.admit(prompt_lens):
            self._inbox.put(Submit(sequences))
        return [sequence.id for sequence in sequences]

    def create_sequence(self, task: Task, output_sink: OutputSink) -> Sequence:
        """The Sequence of a valid task, with a new id. Raises BadRequest, TooLong."""
        runner, context = self.core.runner, self.core.kv_cache_manager.context
        if not task.prompt_token_ids:
            raise BadRequest("prompt", "must hold at least one token")
        if not runner.is_encoder_decoder and len(task.prompt_token_ids) > context:
            raise TooLong("prompt", context, len(task.prompt_token_ids))
        if task.max_tokens:
            stop_banned = task.min_tokens > 0 and task.matcher is None
            check_any_token_allowed(task.sampling, task.stop_token_ids, stop_banned, runner.vocab)
        token_ids, encoder_ids = (
            (runner.start_ids, task.prompt_token_ids)
            if runner.is_encoder_decoder
            else (task.prompt_token_ids, ())
        )
        sequence = Sequence(next(self._ids), task, output_sink, list(token_ids), encoder_ids)
        if task.prompt_logprobs is not None:
            sequence.prompt_logprobs.append(PromptLogprob())
        return sequence

    def abort(self, sequence_ids: Iterable[int]) -> None:
        """End these sequences with reason "cancelled" before the next step. Idempotent."""
        self._inbox.put(Abort(tuple(sequence_ids)))

    def run(
        self, background_task: BackgroundTask[T], tokens_by_id: Mapping[int, int] = MappingProxyType({})
    ) -> Future[T]:
        """Run a background task between the model's steps.

        tokens_by_id: prompt tokens that count as queued until the task releases them. Raises Overloaded
        beyond max_queued_tokens, Unavailable once closed.
        """
        with self._admission_control.admit(tokens_by_id):
            self._inbox.put(RunBackgroundTask(background_task))
        return background_task.future

    def set_delivery(self, post: Post) -> None:
        """Deliver each step's outputs by one `post(callback)` instead of on the engine's thread."""
        self.core.output_queue.post = post

    def on_step(self, listener: Callable[[StepStats], None]) -> None:
        """Call `listener` after each step, on the engine's thread."""
        self.core.on_step = listener

    @property
    def started(self) -> bool:
        return self._future is not None

    @property
    def closed_reason(self) -> str:
        """Why the engine accepts no more tasks; empty while it accepts them."""
        return self._admission_control.closed_reason

    @property
    def consecutive_failures(self) -> int:
        """Sequences that failed in a row, with no token generated in between."""
        return self.core.counters.consecutive_failures

    def stats(self) -> Stats:
        scheduler, kv_cache_manager = self.core.scheduler, self.core.kv_cache_manager
        running = tuple(scheduler.running)
        return Stats(
            running=len(running),
            waiting=len(scheduler.waiting),
            waiting_tokens=self._admission_control.queued_tokens,
            kv_capacity=kv_cache_manager.kv_capacity,
            kv_used=kv_cache_manager.used_tokens,
            kv_reserved=sum(min(sequence.max_len, kv_cache_manager.context) for sequence in running),
            kv_touched=kv_cache_manager.touched_tokens,
            background_tasks=len(self.core.background_queue),
            token_budget=scheduler.token_budget,
            preemptions=scheduler.preemptions,
            **asdict(self.core.counters),
        )

    def step(self) -> bool:
        """Handle the commands in the inbox, then run one step. Returns whether work is left.

        To be called on the engine's thread, or by the owner of an engine that has not been started.
        """
        while not self._inbox.empty():
            self._handle(self._inbox.get())
        self.core.step()
        return not self.core.is_idle

    def run_until_idle(self) -> None:
        """Step until no work is left; only for an engine that has not been started."""
        with torch.inference_mode():
            while self.step():
                pass

    def _run(self) -> None:
        log.info("engine started")
        try:
            with torch.inference_mode():
                has_work = False
                while not self._stop_error:
                    if not has_work:
                        self._handle(self._inbox.get())
                    has_work = self.step()
        except Exception:
            log.exception("engine died")
            self._stop_error = Internal("the engine has failed: the server must be restarted")
        self._close(self._stop_error)

    def _handle(self, command: Command) -> None:
        match command:
            case Submit(sequences):
                self.core.add(sequences)
            case Abort(sequence_ids):
                self.core.abort(sequence_ids, "cancelled")
            case RunBackgroundTask(background_task):
                self.core.background_queue.add(background_task)
            case Stop(error):
                self._stop_error = self._stop_error or error

    def _close(self, error: ServerError) -> None:
        """Accept no more tasks and end all accepted tasks with error."""
        self._admission_control.close(error.message)
        while not self._inbox.empty():
            command = self._inbox.get()
            if isinstance(command, Submit | RunBackgroundTask):
                self._handle(command)
        self.core.close(error)
        log.info("engine stopped reason=%s", error.message)
