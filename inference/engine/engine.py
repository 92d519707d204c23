"""The engine: takes requests from any thread, computes them in batches on an EngineThread, delivers outputs.

The commands (commands.py) cross threads; EngineCore runs the steps. Knows no text, HTTP or model.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future
from dataclasses import asdict
from itertools import count, repeat
from queue import SimpleQueue
from types import MappingProxyType
from typing import TypeVar

import torch

from inference.engine.background import BackgroundTask
from inference.engine.banned_tokens import bans_tokens, check_any_token_allowed
from inference.engine.commands import Abort, Command, RunBackgroundTask, Stop, Submit
from inference.engine.core import EngineCore
from inference.engine.engine_thread import EngineThread
from inference.engine.options import EngineOptions
from inference.engine.output_queue import Post
from inference.engine.sampling.sampler import Sampler
from inference.engine.scheduling.admission_control import AdmissionControl
from inference.engine.sequence import BACKGROUND, POOLING, Matcher, Sequence
from inference.engine.step_output import OutputSink, PromptLogprob
from inference.engine_stats import Stats, StepStats
from inference.errors import BadRequest, Internal, ServerError, TooLong, Unavailable
from inference.model.batch import Runner
from inference.model.lost_device import DeviceLost
from inference.types import GenerationRequest

log = logging.getLogger(__name__)

T = TypeVar("T")


class Engine:
    """Computes answers on a Runner."""

    def __init__(self, runner: Runner, sampler: Sampler, options: EngineOptions) -> None:
        self._admission_control = AdmissionControl(options.max_queued_tokens)
        self._pooling = options.pooling
        self._inbox: SimpleQueue[Command] = SimpleQueue()
        self._ids = count()
        self._stop_error: ServerError | None = None
        self._engine_thread: EngineThread | None = None
        self._closed: Future[None] = Future()
        self.core = EngineCore(runner, sampler, options, self._admission_control)
        self._admission_control.estimate_wait = self.core.wait_estimator.drained_s

    def start(self, engine_thread: EngineThread | None = None) -> None:
        """Take turns on `engine_thread`, by default a new one, until `stop` or a failure."""
        self._engine_thread = engine_thread or EngineThread("engine")
        self._engine_thread.attach(self)
        log.info("engine started")

    def stop(self) -> None:
        """Accept no more requests, end all others with Unavailable, and wait for that. Idempotent."""
        error = Unavailable("the server is shutting down")
        self.fail(error)
        if self._engine_thread is None:
            self._close(error)
        else:
            self._closed.result()

    def fail(self, error: ServerError) -> None:
        """Accept no more requests and end all others with error. From any thread; returns at once."""
        self._admission_control.close(error.message)
        self._send(Stop(error))

    def pause(self, reason: str) -> None:
        """Refuse further requests with Unavailable until `resume`. Accepted ones go on."""
        self._admission_control.pause(reason)

    def resume(self) -> None:
        self._admission_control.resume()

    def submit(
        self,
        requests: SequenceOf[GenerationRequest],
        output_sinks: SequenceOf[OutputSink],
        matchers: SequenceOf[Matcher | None] = (),
    ) -> list[int]:
        """Queue one answer for each request, or none; its outputs go to its sink. Returns ids for `abort`.

        requests: see Sequence.request. matchers: the grammar of each answer; empty: none has one. Raises
        BadRequest or TooLong for a request, Overloaded beyond max_queued_tokens, Unavailable once closed. The
        prompts of requests in the background do not count towards max_queued_tokens.
        """
        sequences = list(map(self.create_sequence, requests, output_sinks, matchers or repeat(None)))
        for sequence in sequences:
            sequence.submission = sequence.request.group or sequences[0].id
        num_tokens = {sequence.id: num_queued_tokens(sequence) for sequence in sequences}
        with self._admission_control.admit(num_tokens):
            self._send(Submit(sequences))
        return list(num_tokens)

    def submit_pooling(
        self, requests: SequenceOf[GenerationRequest], output_sinks: SequenceOf[OutputSink]
    ) -> list[int]:
        """Queue the prompt of each request to be pooled into an embedding. Otherwise as `submit`.

        The prompts do not count towards max_queued_tokens: they keep no answer waiting, because the scheduler
        leaves half of the rows and of the time to answers. The runner must be capable of pooling.
        """
        sequences = list(map(self.create_sequence, requests, output_sinks))
        for sequence in sequences:
            sequence.pooling = self._pooling
            sequence.priority = max(POOLING, sequence.priority)
        with self._admission_control.admit({}):
            self._send(Submit(sequences))
        return [sequence.id for sequence in sequences]

    def create_sequence(
        self, request: GenerationRequest, output_sink: OutputSink, matcher: Matcher | None = None
    ) -> Sequence:
        """The Sequence of a valid request, with a new id. Raises BadRequest, TooLong."""
        runner, context = self.core.runner, self.core.kv_cache_manager.context
        token_ids, encoder_ids = request.prompt_token_ids, request.prompt_token_ids[:0]
        if not token_ids:
            raise BadRequest("prompt", "must hold at least one token")
        if runner.capabilities.encoder_decoder:
            token_ids, encoder_ids = runner.start_ids, token_ids
        if len(token_ids) > context:
            raise TooLong("prompt", context, len(token_ids))
        sequence = Sequence(next(self._ids), request, output_sink, list(token_ids), encoder_ids, matcher)
        if request.max_tokens and (request.min_tokens or bans_tokens(request.sampling)):
            stop_banned = request.min_tokens > 0 and matcher is None
            check_any_token_allowed(request.sampling, sequence.stop_token_ids, stop_banned, runner.vocab)
        if request.prompt_logprobs is not None:
            sequence.prompt_logprobs.append(PromptLogprob())
        if request.in_background:
            sequence.priority = BACKGROUND
        return sequence

    def abort(self, sequence_ids: Iterable[int]) -> None:
        """End these sequences with reason "cancelled" before the next step. Idempotent."""
        self._send(Abort(tuple(sequence_ids)))

    def run(
        self, background_task: BackgroundTask[T], tokens_by_id: Mapping[int, int] = MappingProxyType({})
    ) -> Future[T]:
        """Run a background task between the model's steps.

        tokens_by_id: sequence id → prompt tokens that count as queued until the task marks the sequence as
        scheduled, or ends. Raises Overloaded beyond max_queued_tokens, Unavailable once closed.
        """
        with self._admission_control.admit(tokens_by_id):
            self._send(RunBackgroundTask(background_task))

        def release(future: Future[T]) -> None:
            for id in tokens_by_id:
                self._admission_control.release(id)

        background_task.future.add_done_callback(release)
        return background_task.future

    def set_delivery(self, post: Post) -> None:
        """Deliver each step's outputs by one `post(callback)` instead of on the engine's thread."""
        self.core.output_queue.post = post

    def set_step_listener(self, listener: Callable[[StepStats], None]) -> None:
        """Call `listener` after each step, on the engine's thread."""
        self.core.on_step = listener

    @property
    def started(self) -> bool:
        return self._engine_thread is not None

    @property
    def is_idle(self) -> bool:
        """Whether no accepted request is unfinished. On the engine's thread."""
        return self.core.is_idle and self._inbox.empty()

    @property
    def closed_reason(self) -> str:
        """Why the engine accepts no more requests; empty while it accepts them."""
        return self._admission_control.closed_reason

    @property
    def consecutive_failures(self) -> int:
        """Sequences that failed in a row, with no token generated in between."""
        return self.core.counters.consecutive_failures

    def seconds_until_end(self) -> float | None:
        """Seconds until a running answer is expected to end; None if unknown. From any thread."""
        return self.core.wait_estimator.first_end_s()

    def seconds_until_adapter_is_unused(self) -> float | None:
        """Seconds until the running answers of one adapter are expected to end; None if unknown."""
        return self.core.wait_estimator.first_end_s("adapter")

    def stats(self) -> Stats:
        scheduler, kv_cache_manager = self.core.scheduler, self.core.kv_cache_manager
        running = tuple(scheduler.running)
        return Stats(
            running=len(running),
            waiting=len(scheduler.waiting),
            running_adapters=adapter_names(running),
            waiting_adapters=adapter_names(tuple(scheduler.waiting)),
            waiting_tokens=self._admission_control.queued_tokens,
            kv_capacity=kv_cache_manager.kv_capacity,
            kv_used=kv_cache_manager.used_tokens,
            kv_reserved=sum(min(sequence.max_len, kv_cache_manager.context) for sequence in running),
            kv_touched=kv_cache_manager.touched_tokens,
            background_tasks=len(self.core.background_queue.tasks),
            token_budget=scheduler.limits.token_budget,
            preemptions=scheduler.preemptions,
            **asdict(self.core.counters),
        )

    def step(self) -> bool:
        """Handle the commands in the inbox, then run one step. Returns whether work is left.

        To be called on the engine's thread, or by the owner of an engine that has not been started.
        """
        while not self._inbox.empty():
            self._handle(self._inbox.get())
        return self.core.step()

    def run_until_idle(self) -> None:
        """Step until no work is left; only for an engine that has not been started."""
        with torch.inference_mode():
            while self.step():
                pass

    def take_turn(self) -> bool:
        """As `step`, on the engine thread. After `stop` and after a failure the engine leaves the thread."""
        if self.is_idle:
            return False
        has_work = False
        try:
            has_work = self.step()
        except BaseException as error:  # a panic of a library written in Rust is no Exception
            log.exception("engine died")
            failed = "the GPU" if isinstance(error, DeviceLost) else "the engine"
            self._stop_error = Internal(f"{failed} has failed: the server must be restarted")
        if self._stop_error is None:
            return has_work
        assert self._engine_thread is not None
        self._engine_thread.detach(self)
        self._close(self._stop_error)
        self._closed.set_result(None)
        return False

    def _send(self, command: Command) -> None:
        self._inbox.put(command)
        if self._engine_thread is not None:
            self._engine_thread.wake()

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
        """Accept no more requests and end all accepted ones with error."""
        self._admission_control.close(error.message)
        while not self._inbox.empty():
            command = self._inbox.get()
            if isinstance(command, Submit | RunBackgroundTask):
                self._handle(command)
        self.core.end_all(error)
        log.info("engine stopped reason=%s", error.message)


def num_queued_tokens(sequence: Sequence) -> int:
    """Tokens that count towards max_queued_tokens while the sequence waits."""
    if sequence.priority == BACKGROUND:
        return 0
    return len(sequence.request.prompt_token_ids) + sequence.num_output_tokens


def adapter_names(sequences: Iterable[Sequence]) -> tuple[str, ...]:
    """The names of the sequences' adapters, each once and in order."""
    return tuple(sorted({sequence.request.adapter or "" for sequence in sequences} - {""}))
