"""A small model that writes draft tokens: a copy of each sequence runs ahead of it on a Runner of its own.

The copies are sampled as the sequences will be, with their temperature, penalties and seed: the noise of a
token is the same for both models, so that they select the same token wherever they nearly agree. Knows
sequences, a Runner and a Sampler; does not know whether drafts pay.
"""

import time
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from itertools import takewhile

from torch import Tensor
from torch.nn.functional import pad

from inference.engine.build_batch import build_batch
from inference.engine.chunking import UNCHUNKED
from inference.engine.kv.manager import create_kv_cache_manager
from inference.engine.sampling.sampler import Sampler
from inference.engine.sampling.scatter import NEG_INF, select_rows
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.step_times import typical_time
from inference.model.batch import Runner


class DraftModel:
    """Writes drafts of several sequences at once: of as many as its KV memory holds.

    runner   computes several tokens a row (RunnerCapabilities.chunked_prefill), from a vocabulary in which
             the ids mean the same as in the large model's
    step_s   seconds of a step in which each copy computes one token; None before the first
    """

    def __init__(self, runner: Runner, sampler: Sampler) -> None:
        self.runner = runner
        self.sampler = sampler
        self.kv_cache_manager = create_kv_cache_manager(runner, prefix_caching=False, chunking=UNCHUNKED)
        self.step_s: float | None = None
        self._copies: dict[int, Sequence] = {}
        self._num_known: dict[int, int] = {}  # tokens of each copy that were not drafts

    def propose(self, num_drafts: dict[Sequence, int], token_budget: int) -> None:
        """Set the draft_token_ids of each sequence: at most the given number.

        Computes at most token_budget tokens that the model has not seen yet; a sequence with a long prompt
        gets its first drafts in a later call.
        """
        copies = {each.id: each for each in map(self._follow, num_drafts) if each is not None}
        scheduled = self._schedule(copies.values(), token_budget)
        sequences = {sequence.id: sequence for sequence in num_drafts}
        while scheduled:
            advanced = self._step(scheduled)
            for each in advanced:
                sequences[each.id].draft_token_ids.append(each.token_ids[-1])
            unfinished = {s.id for s, count in num_drafts.items() if len(s.draft_token_ids) < count}
            scheduled = self._schedule([each for each in advanced if each.id in unfinished], token_budget)

    def keep_only(self, sequences: Iterable[Sequence]) -> None:
        """Forget all other sequences."""
        kept_ids = {sequence.id for sequence in sequences}
        for id in self._copies.keys() - kept_ids:
            self._forget(self._copies[id])

    def reset(self) -> None:
        """Forget all sequences and the contents of the KV memory."""
        self.kv_cache_manager.reset()
        self._copies.clear()
        self._num_known.clear()

    def _follow(self, sequence: Sequence) -> Sequence | None:
        """The copy with the sequence's tokens, of which those computed before count; None without memory."""
        each = self._copies.get(sequence.id)
        if each is None:
            return self._add(sequence)
        if len(sequence.token_ids) >= self.kv_cache_manager.context:
            self._forget(each)
            return None
        num_known = self._num_known[each.id]
        drafted = zip(each.token_ids[num_known:], sequence.token_ids[num_known:], strict=False)
        num_right = num_known + sum(1 for _ in takewhile(lambda ids: ids[0] == ids[1], drafted))
        num_computed = each.num_computed_tokens + each.num_in_flight_tokens
        each.num_computed_tokens = min(num_computed, num_right, len(sequence.token_ids) - 1)
        each.num_in_flight_tokens = 0
        each.token_ids[num_right:] = sequence.token_ids[num_right:]
        self._num_known[each.id] = len(each.token_ids)
        return each

    def _add(self, sequence: Sequence) -> Sequence | None:
        each = copy(sequence)
        each.request = replace(sequence.request, adapter=None, adapter_number=0)
        each.token_ids, each.page_hashes, each.draft_token_ids = list(sequence.token_ids), [], []
        each.clear_placement()
        if len(each.token_ids) >= self.kv_cache_manager.context or not self.kv_cache_manager.allocate(each):
            return None
        self._copies[each.id], self._num_known[each.id] = each, len(each.token_ids)
        return each

    def _forget(self, each: Sequence, reusable: bool = True) -> None:
        del self._copies[each.id], self._num_known[each.id]
        self.kv_cache_manager.free(each, reusable)

    def _schedule(self, copies: Iterable[Sequence], token_budget: int) -> SchedulerOutput:
        """The tokens of the next step: those that the copies lack, the shortest rests first."""
        while not self.kv_cache_manager.grow():
            self._forget(self.kv_cache_manager.active[-1])
        scheduled: SchedulerOutput = []
        for each in sorted(copies, key=lambda each: each.num_unscheduled_tokens):
            num_tokens = min(each.num_unscheduled_tokens, token_budget)
            if each.row >= 0 and num_tokens > 0:
                num_tokens = self.kv_cache_manager.reserve(each, num_tokens)
                token_budget -= num_tokens
                scheduled.append((each, num_tokens))
        return sorted(scheduled, key=lambda entry: entry[0].row)

    def _step(self, scheduled: SchedulerOutput) -> list[Sequence]:
        """Compute a step; returns the copies that it extends by a token.

        The tokens are in flight until `_follow` knows which were right: a page behind a sliding window is
        freed only when no draft can be taken back.
        """
        start_s = time.perf_counter()
        prepared = build_batch(scheduled, self.kv_cache_manager.take_ops(), self.kv_cache_manager)
        logits = self.runner.forward(prepared.batch)
        sampled = prepared.sampled_sequences
        rows = fit_width(select_rows(logits, prepared.sampled_rows), self.sampler.vocab)
        tokens = self.sampler.sample_async(rows, sampled).wait() if sampled else []
        for each, num_tokens in scheduled:
            each.num_in_flight_tokens += num_tokens
        advanced = []
        for each, token in zip(sampled, tokens, strict=True):
            if token.id < 0:
                self._forget(each, reusable=False)
            elif token.id not in each.stop_token_ids:
                each.token_ids.append(token.id)
                advanced.append(each)
        if all(num_tokens == 1 for _, num_tokens in scheduled):
            self.step_s = typical_time(self.step_s, time.perf_counter() - start_s)
        return advanced


def fit_width(logits: Tensor, vocab: int) -> Tensor:
    """The logits (W, V) with at least `vocab` columns: the model does not know the ids of further ones."""
    return logits if logits.shape[1] >= vocab else pad(logits, (0, vocab - logits.shape[1]), value=NEG_INF)
