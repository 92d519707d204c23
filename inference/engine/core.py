"""The engine's loop: schedule, compute, append the sampled tokens, send the outputs.

Single-threaded: one thread calls it. Knows ids and integers; knows no text, HTTP, inbox or model.
"""

import logging
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf

from inference.engine.background import BackgroundQueue
from inference.engine.chunking import Chunking
from inference.engine.kv.manager import create_kv_cache_manager
from inference.engine.options import EngineOptions
from inference.engine.output_queue import OutputQueue, make_step_output
from inference.engine.overlap_pipeline import create_pipeline
from inference.engine.pipeline import CompletedStep
from inference.engine.sampling.sampler import SampledToken, Sampler
from inference.engine.scheduling.admission_control import AdmissionControl
from inference.engine.scheduling.deadlines import Deadlines
from inference.engine.scheduling.out_of_memory import shrink_next_step
from inference.engine.scheduling.priority_policy import PriorityPolicy
from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.scheduling.step_time_limit import StepTimeLimit
from inference.engine.scheduling.wait_estimator import WaitEstimator
from inference.engine.sequence import GENERATING, Sequence
from inference.engine.speculation.proposer import create_proposer
from inference.engine.step import ModelStep
from inference.engine.step_output import OutputSink, StepOutput
from inference.engine.step_result import StepResult
from inference.engine_stats import EngineCounters, StepStats
from inference.errors import Internal, ServerError
from inference.events import FinishReason
from inference.model.batch import CacheOp, Runner
from inference.process.memory.memory_shortage import TOO_LITTLE_MEMORY, is_memory_shortage

log = logging.getLogger(__name__)


class EngineCore:
    """Runs sequences on a Runner, one step at a time.

    sequences         all unfinished sequences, by id
    background_queue  tasks that run between the model's steps. A task that generates an answer uses `runner`,
                      `sampler`, `mark_scheduled`, `count_prompt` and `put_output`, nothing else of the core
    on_step           called after each step
    """

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        options: EngineOptions,
        admission_control: AdmissionControl,
    ) -> None:
        whole_prompts = runner.capabilities.encoder_decoder or not runner.capabilities.chunked_prefill
        chunk_size = options.prefill_chunk_size
        chunking = Chunking(runner.context if chunk_size and whole_prompts else chunk_size)
        self.runner, self.sampler = runner, sampler
        can_reuse = options.prefix_caching and not whole_prompts
        self.kv_cache_manager = create_kv_cache_manager(runner, can_reuse, chunking)
        self.scheduler = Scheduler(
            self.kv_cache_manager,
            max_batch_tokens=options.max_batch_tokens,
            whole_prompts=whole_prompts,
            admission_policy=options.admission_policy,
            chunking=chunking,
            step_time_limit=StepTimeLimit(),
        )
        max_drafts = 0 if whole_prompts or chunk_size else options.speculate
        proposer = create_proposer(self.kv_cache_manager, max_drafts, options.draft_model)
        self.model_step = ModelStep(runner, sampler, self.kv_cache_manager, chunking)
        self.pipeline = create_pipeline(self._schedule, proposer, self.model_step, self.kv_cache_manager)
        self.admission_control = admission_control
        self.output_queue = OutputQueue()
        self.background_queue = BackgroundQueue()
        self.counters = EngineCounters()
        self.wait_estimator = WaitEstimator(self.scheduler)
        self.sequences: dict[int, Sequence] = {}
        self.on_step: Callable[[StepStats], None] = lambda step_stats: None
        self._deadlines = Deadlines()
        self._last_completed_s = 0.0

    @property
    def is_idle(self) -> bool:
        return not (self.sequences or self.background_queue.tasks)

    def add(self, sequences: Iterable[Sequence]) -> None:
        """Queue the sequences. One for which the system refuses memory ends with an error."""
        for sequence in sequences:
            try:
                self._add(sequence)
            except MemoryError:
                log.exception("out of memory sequence=%d", sequence.id)
                self._refuse(sequence, Internal(TOO_LITTLE_MEMORY))

    def _add(self, sequence: Sequence) -> None:
        if sequence.priority != GENERATING and self.scheduler.priority_policy is None:
            self.scheduler.priority_policy = PriorityPolicy(self.kv_cache_manager.max_sequences)
        if sequence.deadline is not None:
            self._deadlines.add(sequence.deadline, sequence.id)
        self.sequences[sequence.id] = sequence
        self.scheduler.waiting.append(sequence)
        context = self.kv_cache_manager.context
        if sequence.num_output_tokens and (reason := sequence.finish_reason(context)):
            self._finish(sequence, reason)  # the tokens of the request are the whole answer

    def _refuse(self, sequence: Sequence, error: ServerError) -> None:
        """End a sequence that was added in part, or not at all."""
        if sequence in self.scheduler.waiting:
            self.scheduler.waiting.remove(sequence)
        self.sequences.pop(sequence.id, None)
        self.admission_control.release(sequence.id)
        self.put_output(sequence.output_sink, StepOutput(error=error))

    def abort(self, sequence_ids: Iterable[int], finish_reason: FinishReason) -> None:
        """End the sequences with these ids; ids that have already ended are ignored."""
        for id in sequence_ids:
            if id in self.sequences:
                self._finish(self.sequences[id], finish_reason)

    def mark_scheduled(self, sequences: Iterable[Sequence]) -> None:
        """Stop counting the sequences as queued, and record how long each has waited."""
        for sequence in sequences:
            if self.admission_control.release(sequence.id):
                sequence.num_cached_tokens = sequence.num_computed_tokens
                sequence.queue_time_s = time.monotonic() - sequence.arrival_time

    def count_prompt(self, sequence: Sequence) -> None:
        """Count the prompt of an answer that has started."""
        self.counters.prompt_tokens += len(sequence.request.prompt_token_ids)
        self.counters.cached_tokens += sequence.num_cached_tokens

    def put_output(self, output_sink: OutputSink, output: StepOutput) -> None:
        """Send an output with the next delivery, and count its tokens, its finish reason or its error."""
        self.output_queue.add(output_sink, output)
        self.counters.count_output(len(output.token_ids), output.finish_reason, output.error)

    def step(self) -> bool:
        """Run a model step and a step of a background task, then send the outputs; whether work is left."""
        try:
            return self._step()
        except Exception as error:
            if not is_memory_shortage(error):
                raise
            log.exception("out of memory between steps sequences=%d", len(self.sequences))
            self._fail_all(Internal(TOO_LITTLE_MEMORY))
            self.output_queue.send()
        return bool(self.background_queue.tasks)

    def _step(self) -> bool:
        """Complete the step in flight, schedule and launch the next one, and send the outputs.

        The only stream gets its token before the launch. Several streams get theirs afterwards: their
        receivers would compete with the launch for the interpreter.
        """
        if (collected := self.pipeline.collect()) is not None:
            self._complete(collected)
        self.abort(self._deadlines.take_expired(), "deadline")
        if collected is not None and len(self.sequences) <= 1:
            self.output_queue.send()
        if self.sequences and (completed := self.pipeline.advance()) is not None:
            self._complete(completed)
        if self.background_queue.tasks:
            self.background_queue.step(share_time=bool(self.sequences))
        self.output_queue.send()
        if self.sequences or self.background_queue.tasks:
            return True
        self.wait_estimator.record_idle()
        self.pipeline.discard()
        self.scheduler.newly_scheduled = []  # an idle engine refers to no request
        self.kv_cache_manager.check_integrity()
        return False

    def end_all(self, error: ServerError) -> None:
        """End every sequence and background task with error. Nothing is cached afterwards."""
        self._fail_all(error)
        self.background_queue.close(error)
        self.output_queue.send()

    def _schedule(self) -> ScheduledStep:
        start_s = time.perf_counter()
        scheduler_output = self.scheduler.schedule()
        if newly_scheduled := self.scheduler.newly_scheduled:
            self.mark_scheduled(newly_scheduled)
        num_tokens, has_prompt = 0, False
        for sequence, num_scheduled_tokens in scheduler_output:
            num_tokens += num_scheduled_tokens
            has_prompt |= not (sequence.started or sequence.num_pending_tokens)
        num_new, step_budget = len(newly_scheduled), self.scheduler.step_budget
        return ScheduledStep(scheduler_output, num_tokens, num_new, has_prompt, step_budget, start_s)

    def _complete(self, step: CompletedStep) -> None:
        """Update the sequences from the results of a step, and report it."""
        num_before = self.counters.prompt_tokens + self.counters.generated_tokens
        if step.out_of_memory is not None:
            self._handle_oom(step.out_of_memory, step.cache_ops)
        else:
            self._update_from_output(step.results)
        num_processed_tokens = self.counters.prompt_tokens + self.counters.generated_tokens - num_before
        self._report_step(step.scheduled, num_processed_tokens, failed=step.out_of_memory is not None)

    def _report_step(self, scheduled: ScheduledStep, num_processed_tokens: int, failed: bool) -> None:
        """Count the step. The time that it overlaps with the step before counts for that one."""
        now = time.perf_counter()
        seconds = now - max(scheduled.start_s, self._last_completed_s)
        self._last_completed_s = now
        self.scheduler.record_step(scheduled.output, scheduled.num_draft_tokens, now, seconds)
        self.counters.steps += 1
        self.counters.step_seconds += seconds
        self.wait_estimator.record_step(scheduled, now, seconds, time.thread_time())
        self.on_step(scheduled.stats(num_processed_tokens, seconds, failed=failed))

    def _update_from_output(self, results: SequenceOf[StepResult]) -> None:
        """Append the step's results to the sequences and queue their outputs."""
        self.scheduler.limits.record_success()
        # From the last row down: freeing a row then never moves a row that is freed later in this loop.
        for result in reversed(results):
            sequence = result.sequence
            if result.error is not None:
                self._fail(sequence, result.error)
                continue
            sequence.num_computed_tokens += result.num_scheduled_tokens
            sequence.prompt_logprobs += result.prompt_logprobs
            if result.pooled_sum is not None:
                sequence.pooled_sum = result.pooled_sum
            if sequence.num_uncomputed_tokens == 0:
                self._append_tokens(sequence, result.sampled_tokens, result.has_nan)

    def _append_tokens(
        self, sequence: Sequence, sampled_tokens: SequenceOf[SampledToken], has_nan: bool
    ) -> None:
        """Append the sampled tokens, if any, to a fully computed sequence, and finish it if it ends.

        has_nan: its KV memory holds NaN behind a rejected draft, so the sequence is computed again.
        """
        self.counters.consecutive_failures = 0
        if not sequence.started:
            self.count_prompt(sequence)
        if sampled_tokens:
            # All but the last were drafts, which are computed already.
            sequence.token_ids += [token.id for token in sampled_tokens]
            sequence.num_computed_tokens = len(sequence.token_ids) - 1
        if sequence.draft_token_ids:
            self.counters.drafts += 1
            self.counters.drafted_tokens += len(sequence.draft_token_ids)
            self.counters.accepted_tokens += max(0, len(sampled_tokens) - 1)
        if has_nan:
            self.scheduler.preempt(sequence, reusable=False)
        if finish_reason := sequence.finish_reason(self.kv_cache_manager.context):
            self._finish(sequence, finish_reason, sampled_tokens)
        else:
            self.put_output(sequence.output_sink, make_step_output(sequence, sampled_tokens))

    def _finish(
        self, sequence: Sequence, finish_reason: FinishReason, sampled_tokens: SequenceOf[SampledToken] = ()
    ) -> None:
        self.put_output(sequence.output_sink, make_step_output(sequence, sampled_tokens, finish_reason))
        self._remove(sequence)
        self.wait_estimator.record_answer(sequence, finish_reason)
        num_tokens = sequence.num_output_tokens
        log.debug("sequence finished id=%d reason=%s tokens=%d", sequence.id, finish_reason, num_tokens)

    def _fail(self, sequence: Sequence, error: ServerError) -> None:
        """End the sequence with error.

        After an internal error (status 500 and up) prefix caching does not reuse its row.
        """
        is_internal = error.status >= 500
        self.put_output(sequence.output_sink, StepOutput(error=error))
        self._remove(sequence, reusable=not is_internal)
        level = logging.ERROR if is_internal else logging.INFO
        num_tokens = len(sequence.token_ids)
        log.log(level, "sequence failed id=%d tokens=%d error=%s", sequence.id, num_tokens, error)

    def _remove(self, sequence: Sequence, reusable: bool = True) -> None:
        del self.sequences[sequence.id]
        self.scheduler.finish(sequence, reusable)
        self.admission_control.release(sequence.id)
        self._deadlines.compact(self.sequences)

    def _handle_oom(self, error: Exception, cache_ops: SequenceOf[CacheOp]) -> None:
        """Shrink the next step after one that ran out of memory, or fail the sequence that can never fit."""
        self.counters.oom_steps += 1
        can_repeat = self.runner.capabilities.chunked_prefill
        oversized = shrink_next_step(self.scheduler, error, cache_ops, can_repeat)
        if oversized is not None:
            self._fail(oversized, Internal(TOO_LITTLE_MEMORY))

    def _fail_all(self, error: ServerError) -> None:
        """End every sequence with error, and discard the KV memory: an update may be half done."""
        self.scheduler.discard_all()
        for sequence in self.sequences.values():
            self.put_output(sequence.output_sink, StepOutput(error=error))
            self.admission_control.release(sequence.id)
        self.sequences.clear()
        self.pipeline.discard()
