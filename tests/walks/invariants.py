"""Invariants of an engine between two steps.

No sequence is lost, nothing is counted twice, and the KV memory contains what the engine assumes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.kv.page_pool import PagePool
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.kv.prefix import extend_page_hashes
from inference.engine.kv.window_pages import WindowPages
from inference.engine.step_output import StepOutput
from inference.model.kv_cost import WindowGroup
from inference.types import GenerationRequest
from tests.engine.conftest import FakeRunner
from tests.engine.engine_probe import EngineProbe
from tests.walks.paged_echo_runner import Ids, PagedEchoRunner


class RequestOutputs(Protocol):
    """A request and its outputs."""

    generation_request: GenerationRequest
    outputs: list[StepOutput]


def check_invariants(
    probe: EngineProbe, requests: Mapping[int, RequestOutputs], started_ids: set[int]
) -> None:
    """`started_ids` are the sequences that have had a row."""
    check_places(probe)
    check_admission(probe, requests, started_ids)
    check_outputs(probe, requests)
    probe.check()
    kv_cache, runner = probe.kv_cache, probe.runner
    if isinstance(kv_cache, ContiguousKVCacheManager):
        check_rows(kv_cache)
        if isinstance(runner, FakeRunner):
            check_columns(kv_cache, runner)
    if isinstance(kv_cache, PagedKVCacheManager):
        check_pages(kv_cache, runner.window_groups)
        if isinstance(runner, PagedEchoRunner):
            check_page_contents(kv_cache, runner)


def check_places(probe: EngineProbe) -> None:
    """Each sequence runs or waits, in one list only; waiting sequences hold no memory."""
    running, waiting, active = probe.running, probe.waiting, probe.kv_cache.active
    here = [sequence.id for sequence in (*running, *waiting)]
    assert sorted(here) == sorted(probe.unfinished), "a sequence is in no list or in two"
    assert [s.id for s in running] == sorted(s.id for s in running), (
        "running sequences are not in order of age"
    )
    assert sorted(s.id for s in active) == [s.id for s in running], "each running sequence has KV memory"
    assert len({s.row for s in running} - {-1}) == len(running), "two running sequences share a row"
    assert all(s.row == -1 and s.num_computed_tokens == 0 and not s.pages for s in waiting)
    assert all(0 <= s.num_computed_tokens < len(s.token_ids) for s in running)


def check_admission(
    probe: EngineProbe, requests: Mapping[int, RequestOutputs], started_ids: set[int]
) -> None:
    """Queued tokens are those of submitted sequences that have neither ended nor started, nor are in the
    background.
    """
    tokens = {
        id: len(request.generation_request.prompt)
        for id, request in requests.items()
        if not (id in started_ids or is_finished(request.outputs) or request.generation_request.in_background)
    }
    assert probe.queued_tokens == sum(tokens.values())


def check_outputs(probe: EngineProbe, requests: Mapping[int, RequestOutputs]) -> None:
    """Every generated token was put out once, to its own sink, and the counters add up."""
    counters = probe.counters
    summaries = [summarize_outputs(request, len(request.outputs)) for request in requests.values()]
    for id, summary in zip(requests, summaries, strict=True):
        sequence = probe.unfinished.get(id)
        assert sequence is None or sequence.output_token_ids == summary.token_ids
    reasons = Counter(summary.finish_reason for summary in summaries if summary.finish_reason)
    assert {reason: count for reason, count in counters.finished_by_reason.items() if count} == reasons
    assert counters.generated_tokens == sum(len(summary.token_ids) for summary in summaries)
    assert counters.prompt_tokens == sum(summary.num_prompt_tokens for summary in summaries)
    assert counters.cached_tokens == sum(summary.num_cached_tokens for summary in summaries)
    assert counters.accepted_tokens <= counters.drafted_tokens


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """What a request's outputs add to the counters; finish_reason is empty while it runs."""

    token_ids: list[int]
    finish_reason: str
    num_prompt_tokens: int
    num_cached_tokens: int


@lru_cache(maxsize=10_000)
def summarize_outputs(request: RequestOutputs, num_outputs: int) -> OutputSummary:
    """Remembered until another output comes: a walk checks every request after each turn."""
    outputs = request.outputs[:num_outputs]
    assert all(output.num_cached_tokens is None for output in outputs[1:]), (
        "only the first output reports on the prompt"
    )
    assert not any(map(is_last, outputs[:-1])), "an output follows the last one"
    is_started = bool(outputs) and was_computed(outputs[0])
    return OutputSummary(
        [id for output in outputs for id in output.token_ids],
        ("error" if outputs[-1].error else outputs[-1].finish_reason) if outputs else "",
        len(request.generation_request.prompt) if is_started else 0,
        (outputs[0].num_cached_tokens or 0) if is_started else 0,
    )


def check_rows(rows: ContiguousKVCacheManager) -> None:
    """Every row is active, evictable or free."""
    active = [sequence.row for sequence in rows.active]
    assert active == list(range(len(active)))
    free = set(range(rows.num_rows)) - set(active) - set(rows.evictable)
    assert len(active) + len(rows.evictable) + len(free) == rows.num_rows
    assert rows.num_rows * rows.num_columns <= rows.kv_capacity or not rows.num_rows


def check_columns(rows: ContiguousKVCacheManager, runner: FakeRunner) -> None:
    """Every row contains the expected tokens once the pending cache ops are done."""
    memory = apply_pending_cache_ops(rows, runner)
    assert memory.shape.rows == rows.num_rows or not rows.num_rows
    for sequence in rows.active:
        assert (
            memory.row_ids(sequence.row, sequence.num_computed_tokens)
            == sequence.token_ids[: sequence.num_computed_tokens]
        )
        assert not sequence.num_computed_tokens or memory.encoder_inputs[sequence.row] == sequence.encoder_ids
        assert (
            runner.capabilities.chunked_prefill
            or not sequence.num_computed_tokens
            or memory.states[sequence.row] == sequence.num_computed_tokens
        )
    for row, cached_row in rows.evictable.items():
        assert memory.row_ids(row, len(cached_row.token_ids)) == cached_row.token_ids


def check_accounts(pool: PagePool, listed: Counter[int]) -> None:
    assert {page: count for page, count in pool.ref_count.items() if count} == listed
    assert sorted([*pool.free_pages, *pool.evictable, *listed]) == list(range(pool.num_pages))


def check_window(pages: PagedKVCacheManager, window: WindowPages, group: WindowGroup) -> None:
    """Every page of a window group is accounted for; a sequence lists the pages of its window, and no more
    than it can read once it has grown.
    """
    listed: Counter[int] = Counter()
    for sequence in pages.active:
        row_pages = sequence.window_pages[window.index]
        live = [page for page in row_pages if page != group.null_page]
        assert row_pages[len(row_pages) - len(live) :] == live, "a page within the window is missing"
        first_read = max(0, sequence.num_computed_tokens - group.window + 1) // pages.page_size
        assert len(row_pages) - len(live) <= first_read
        listed.update(live)
    check_accounts(window.pool, listed)


def check_pages(pages: PagedKVCacheManager, window_groups: Sequence[WindowGroup] = ()) -> None:
    """Every page is free, evictable, or listed as often as its reference count.

    Shared pages are full and have the same tokens.
    """
    listed = Counter(page for sequence in pages.active for page in sequence.pages)
    check_accounts(pages.pool, listed)
    for window, group in zip(pages.windows, window_groups, strict=True):
        check_window(pages, window, group)
    holders: dict[int, tuple[int, list[int]]] = {}
    for sequence in pages.active:
        for index, page in enumerate(sequence.pages):
            if listed[page] > 1:
                end = (index + 1) * pages.page_size
                assert end <= sequence.num_computed_tokens, "a page that is written is shared"
                assert holders.setdefault(page, (index, sequence.token_ids[:end])) == (
                    index,
                    sequence.token_ids[:end],
                )


def check_page_contents(pages: PagedKVCacheManager, runner: PagedEchoRunner) -> None:
    """Every listed or evictable page contains the expected tokens."""
    for sequence in pages.active:
        stored_ids = runner.ids_in_pages(sequence.pages, sequence.num_computed_tokens)
        assert list(stored_ids) == sequence.token_ids[: sequence.num_computed_tokens]
    check_hashes(pages.pool, runner.pages)
    for window, window_pages in zip(pages.windows, runner.window_pages, strict=True):
        check_hashes(window.pool, window_pages)


def check_hashes(pool: PagePool, pages: list[list[Ids]]) -> None:
    for page_hash, page in pool.page_of_hash.items():
        last_hash = hash_of_last_page(pages[page][-1], len(pages[page]))
        assert last_hash == page_hash, "a page is registered under the hash of another"


@lru_cache(maxsize=10_000)
def hash_of_last_page(token_ids: Ids, page_size: int) -> bytes | None:
    """Remembered: a walk checks every page after each turn. None: there is no full page."""
    page_hashes: list[bytes] = []
    extend_page_hashes(page_hashes, token_ids, page_size)
    return page_hashes[-1] if page_hashes else None


def apply_pending_cache_ops(rows: ContiguousKVCacheManager, runner: FakeRunner) -> FakeRunner:
    """The runner after the pending cache ops."""
    later = replace(
        runner,
        memory=[list(row) for row in runner.memory],
        encoder_inputs=list(runner.encoder_inputs),
        states=list(runner.states),
        batches=[],
    )
    for cache_op in rows.cache_ops:
        later._apply(cache_op)
    return later


def was_computed(output: StepOutput) -> bool:
    return output.error is None and output.finish_reason not in ("cancelled", "deadline")


def is_last(output: StepOutput) -> bool:
    return bool(output.finish_reason or output.error)


def is_finished(outputs: list[StepOutput]) -> bool:
    return bool(outputs) and is_last(outputs[-1])
