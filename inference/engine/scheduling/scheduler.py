"""Decides which sequences run in the next step and how many tokens each computes.

Prefill and decode are not two modes: each sequence has a number of uncomputed tokens. Knows sequences and
their rows; knows no tensors, outputs or threads.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from inference.engine.chunking import UNCHUNKED, Chunking
from inference.engine.kv.manager import KVCacheManager
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.scheduling.priority_policy import PriorityPolicy
from inference.engine.scheduling.step_limits import StepLimits
from inference.engine.scheduling.step_time_limit import StepTimeLimit
from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.engine.sequence import BACKGROUND, GENERATING, PRIORITIES, Sequence
from inference.model.batch import CacheOp

SchedulerOutput = list[tuple[Sequence, int]]  # (sequence, tokens to compute), in the order of rows

MIN_CONCURRENT_PROMPTS = 4  # prompts that run at once at least: a long one must not block short ones
PROMPT_LOGPROB_CHUNK = 256  # tokens per step of a prompt with logprobs: each yields a row of logits (V,)
id_of, row_of = attrgetter("id"), attrgetter("row")
urgency_of = attrgetter("priority", "id")  # the least for the most urgent, and of these the oldest


@dataclass(slots=True)
class PromptLoad:
    """The prompts that compete for the budget of a step, and their tokens."""

    num_prompts: int = 0
    num_tokens: int = 0


class Scheduler:
    """`running` have rows and are ordered by age; `waiting` have none and are in the order of admission.

    limits            how much a step may compute, and how many sequences may run at once
    whole_prompts     each prompt is computed in one step: one prompt of any length, or several that fit the
                      budget together
    newly_scheduled   the sequences that got a row in the last call of `schedule`
    admission_policy  when waiting sequences may join; None: at once
    priority_policy   which sequences may compute and join; None: all, which are of the same priority
    step_time_limit   how many prompt tokens a step computes beside running answers; None: any
    step_budget       tokens that the last scheduled step may compute
    chunking          how prompts are split into chunks
    groups_adapters   whether sequences with the same adapter are adjacent in a step
    """

    def __init__(
        self,
        kv_cache_manager: KVCacheManager,
        *,
        max_batch_tokens: int,
        whole_prompts: bool,
        admission_policy: WaitingServedRatio | None = None,
        chunking: Chunking = UNCHUNKED,
        step_time_limit: StepTimeLimit | None = None,
    ) -> None:
        self.kv_cache_manager = kv_cache_manager
        self.admission_policy = admission_policy
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.newly_scheduled: list[Sequence] = []
        self.limits = StepLimits(max_batch_tokens, kv_cache_manager.max_sequences)
        self.whole_prompts = whole_prompts
        self.chunking = chunking
        self.priority_policy: PriorityPolicy | None = None
        self.step_time_limit = step_time_limit
        self.step_budget = max_batch_tokens
        self.groups_adapters = isinstance(kv_cache_manager, PagedKVCacheManager)
        self.preemptions = 0
        self._lacks_room = False  # an answer could not be admitted for want of a row or of KV memory

    def schedule(self) -> SchedulerOutput:
        """The sequences of the next step and their token counts, in the order of their rows.

        In paged memory, those with the same adapter are adjacent: one product computes its part of them.

        While the KV memory cannot hold all running sequences, the youngest is preempted, and one in the
        background while an answer lacks room. Waiting sequences are admitted in order, those in the
        background last, as long as rows, KV memory and budget suffice; `newly_scheduled` lists them. A
        sequence whose prefix a running one is computing is skipped (`KVCacheManager.should_wait_for_prefix`).

        Pending tokens are scheduled as if known. While steps are in flight none is preempted: if memory is
        short, the output is empty, because the tokens in flight may end sequences and so free memory.
        """
        self.newly_scheduled = []
        if not (self._grow_memory() and self._make_room()):
            return []
        scheduler_output, prompts = self._divide_running()
        self.step_budget = self._limit_budget(num_answers=len(scheduler_output))
        prompt_budget = max(1, self.step_budget - len(scheduler_output))
        policy = self.admission_policy
        is_admitted = policy is None or policy.should_admit(len(self.waiting), len(self.running))
        if self.waiting and is_admitted:
            self.newly_scheduled = self._admit_waiting(prompts, prompt_budget)
            prompts += self.newly_scheduled
            if self.newly_scheduled and self.priority_policy is not None:  # others pause at once
                scheduler_output, prompts = self._divide_running()
        if prompts:
            prompts.sort(key=id_of)
            scheduler_output += self._split_budget(prompts, prompt_budget)
            scheduler_output.sort(key=lambda entry: entry[0].row)
        if self.groups_adapters and len(scheduler_output) > 1:
            scheduler_output.sort(key=lambda entry: entry[0].request.adapter_number)
        return scheduler_output

    def preempt(self, sequence: Sequence, reusable: bool = True) -> None:
        """Move a running sequence to the front of `waiting`; it keeps its tokens.

        reusable: prefix caching may reuse its KV memory.
        """
        self.running.remove(sequence)
        self.kv_cache_manager.free(sequence, reusable)
        self.waiting.insert(0, sequence)
        self.preemptions += 1

    def finish(self, sequence: Sequence, reusable: bool = True) -> None:
        """Remove a sequence that has ended, whether it runs or waits."""
        if sequence.row < 0:
            self.waiting.remove(sequence)
            return
        self.running.remove(sequence)
        self.kv_cache_manager.free(sequence, reusable)

    def shrink_budget(self) -> Sequence | None:
        """Lower the limits after a step that ran out of memory, and preempt the youngest of several.

        Returns the sequence that ran out of memory alone with the smallest budget, if there is one.
        """
        if not self.limits.shrink(len(self.running)):
            return self.running[0]
        if len(self.running) > 1:
            self.preempt(self.running[-1])
        return None

    def reset(self, lost_ops: SequenceOf[CacheOp] = ()) -> None:
        """Discard the contents of the KV memory: every running sequence is computed again, in the same order.

        lost_ops: cache ops that may not have been carried out.
        """
        self.preemptions += len(self.running)
        self.waiting[:0] = self.running
        self.running.clear()
        self.kv_cache_manager.reset(lost_ops)

    def discard_all(self) -> None:
        """Forget every sequence and the contents of the KV memory."""
        self.kv_cache_manager.reset()
        self.running.clear()
        self.waiting.clear()
        self.newly_scheduled = []

    def record_step(
        self, scheduler_output: SchedulerOutput, num_draft_tokens: int, end_s: float, duration_s: float
    ) -> None:
        """Note a step for the policies. end_s: its time.perf_counter()."""
        if self.priority_policy is not None:
            self.priority_policy.record_step([each for each, _ in scheduler_output], end_s, duration_s)
        if self.step_time_limit is not None:
            num_prompt_tokens = sum(count for each, count in scheduler_output if count > 1 or each.pooling)
            self.step_time_limit.record_step(num_prompt_tokens, num_draft_tokens, duration_s)

    def _grow_memory(self) -> bool:
        """Preempt the youngest of the least urgent until the KV memory holds all running sequences.

        Returns False while steps are in flight: their tokens may free memory.
        """
        while not self.kv_cache_manager.grow():
            if any(sequence.num_in_flight_tokens for sequence in self.running):
                return False
            self.preempt(max(self.running, key=urgency_of))
        return True

    def _make_room(self) -> bool:
        """Preempt a sequence in the background for an answer that lacks room; False while it is in flight."""
        victim = max(self.running, key=urgency_of, default=None) if self._lacks_room else None
        if victim is not None and victim.priority == BACKGROUND:
            if victim.num_in_flight_tokens:
                return False
            self.preempt(victim)
        self._lacks_room = False
        return True

    def _divide_running(self) -> tuple[SchedulerOutput, list[Sequence]]:
        """The running sequences that compute one token each, in the order of rows, and the prompts."""
        decoding: SchedulerOutput = []
        prompts: list[Sequence] = []
        context = self.kv_cache_manager.context
        running: SequenceOf[Sequence] = self.running
        if self.priority_policy is not None:
            running = self.priority_policy.select_running(running)
        for sequence in sorted(running, key=row_of):
            num_tokens = sequence.num_schedulable_tokens(context)
            if num_tokens and self.chunking.chunk_size:
                num_tokens = self.chunking.num_next_tokens(sequence)
            if num_tokens == 1 and not sequence.pooling:
                decoding.append((sequence, 1))
            elif num_tokens:
                prompts.append(sequence)
        return decoding, prompts

    def _limit_budget(self, num_answers: int) -> int:
        """The tokens that the next step may compute, of which each of the running answers gets one."""
        limit = self.step_time_limit.max_prompt_tokens if self.step_time_limit and num_answers else None
        token_budget = self.limits.token_budget
        return token_budget if limit is None else min(token_budget, num_answers + limit)

    def _admit_waiting(self, prompts: SequenceOf[Sequence], prompt_budget: int) -> list[Sequence]:
        """Admit waiting sequences. The running `prompts` already request a part of prompt_budget.

        A sequence competes with those of its own priority and of more urgent ones.
        """
        newly_scheduled: list[Sequence] = []
        loads = [PromptLoad() for _ in PRIORITIES]
        for prompt in prompts:
            add_load(loads, prompt)
        for sequence in self._candidates():
            if not self._can_admit(sequence, loads[sequence.priority], prompt_budget):
                if sequence.priority == GENERATING:
                    self._lacks_room = len(self.running) >= self.limits.max_running
                    break
                continue
            if self.kv_cache_manager.should_wait_for_prefix(sequence):
                continue
            if not self.kv_cache_manager.allocate(sequence):
                self._lacks_room = sequence.priority != BACKGROUND
                break
            self.waiting.remove(sequence)
            insort(self.running, sequence, key=id_of)
            newly_scheduled.append(sequence)
            add_load(loads, sequence)
            if self.admission_policy is not None:
                self.admission_policy.steps_since_admission = 0
        return newly_scheduled

    def _candidates(self) -> list[Sequence]:
        """The first waiting sequences, as many as there are rows."""
        candidates: Iterable[Sequence] = self.waiting
        if self.priority_policy is not None:
            candidates = self.priority_policy.select_waiting(self.waiting, self.running)
        return list(islice(candidates, self.kv_cache_manager.max_sequences))

    def _can_admit(self, sequence: Sequence, load: PromptLoad, prompt_budget: int) -> bool:
        if len(self.running) >= self.limits.max_running:
            return False
        if self.whole_prompts:
            return not load.num_prompts or load.num_tokens + cost(sequence) <= prompt_budget
        min_prompts = min(MIN_CONCURRENT_PROMPTS, prompt_budget)
        return load.num_tokens < prompt_budget or load.num_prompts < min_prompts

    def _split_budget(self, prompts: list[Sequence], prompt_budget: int) -> Iterator[tuple[Sequence, int]]:
        """Shortest prompts first, so that most finish soon; half the budget is reserved for the oldest one.

        prompts: at least one, the oldest first. The more urgent ones come before all others. Without the
        reserve a long prompt might never finish.
        """
        oldest = prompts[0]
        if self.whole_prompts or self.chunking.chunk_size:
            by_rank = sorted(prompts, key=lambda s: (s.priority, s is not oldest, s.num_unscheduled_tokens))
            yield from self._chunk(by_rank, prompt_budget)
            return
        reserved_tokens = min(oldest.num_unscheduled_tokens, -(-prompt_budget // 2))
        for sequence in sorted(prompts, key=attrgetter("priority", "num_unscheduled_tokens")):
            reserved_tokens = 0 if sequence is oldest else reserved_tokens
            limit = PROMPT_LOGPROB_CHUNK if sequence.request.prompt_logprobs is not None else prompt_budget
            num_tokens = min(sequence.num_unscheduled_tokens, limit, prompt_budget - reserved_tokens)
            if num_tokens:
                num_tokens = self.kv_cache_manager.reserve(sequence, num_tokens)
                prompt_budget -= num_tokens
                yield sequence, num_tokens

    def _chunk(self, prompts: list[Sequence], prompt_budget: int) -> Iterator[tuple[Sequence, int]]:
        """One chunk for each prompt while budget is left; the last chunk may exceed it."""
        for sequence in prompts:
            if prompt_budget <= 0:
                return
            num_tokens = self.chunking.num_next_tokens(sequence)
            prompt_budget -= num_tokens
            yield sequence, num_tokens


def add_load(loads: SequenceOf[PromptLoad], sequence: Sequence) -> None:
    """Add a prompt to the load of its priority and of the less urgent ones. loads: by priority."""
    for load in loads[sequence.priority :]:
        load.num_prompts += 1
        load.num_tokens += cost(sequence)


def cost(sequence: Sequence) -> int:
    """Tokens to compute before the next token is sampled, including the encoder's input at the start."""
    return sequence.num_unscheduled_tokens + (
        0 if sequence.num_computed_tokens else len(sequence.encoder_ids)
    )
