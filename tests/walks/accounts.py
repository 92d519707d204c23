"""What holds of an engine between any two turns: nobody is lost, nothing is counted twice, and the memory
holds what the engine believes it does.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from inference.engine.chain import lengthen
from inference.engine.engine import Engine
from inference.engine.pages import Pages
from inference.engine.rows import Rows
from inference.engine.sequence import Record, Task
from tests.engine.conftest import FakeRunner
from tests.walks.paged import PagedWitness


class Heard(Protocol):
    """What was asked, and the records that came of it."""

    task: Task
    records: list[Record]


def check_accounts(engine: Engine, asked: Mapping[int, Heard], begun: set[int]) -> None:
    """begun: who has had a row."""
    check_places(engine)
    check_gate(engine, asked, begun)
    check_records(engine, asked)
    seating, runner = engine.loop.seating, engine.loop.runner
    seating.check()
    if isinstance(seating, Rows):
        check_rows(seating)
        if isinstance(runner, FakeRunner):
            check_columns(seating, runner)
    if isinstance(seating, Pages):
        check_pages(seating)
        if isinstance(runner, PagedWitness):
            check_slots(seating, runner)


def check_places(engine: Engine) -> None:
    """Each sequence runs or waits, and is where it is listed; who waits holds nothing."""
    scheduler, live = engine.loop.scheduler, engine.loop.seating.live
    running, waiting = scheduler.running, scheduler.waiting
    here = [sequence.id for sequence in (*running, *waiting)]
    assert sorted(here) == sorted(engine.loop.sequences), "each is in one list, and in it once"
    assert [s.id for s in running] == sorted(s.id for s in running), "the oldest first"
    assert sorted(s.id for s in live) == [s.id for s in running], "each that runs has a seat"
    assert len({s.row for s in running} - {-1}) == len(running), "a row for each"
    assert all(s.row == -1 and s.cached == 0 and not s.pages for s in waiting)
    assert all(0 <= s.cached < len(s.tokens) for s in running)


def check_gate(engine: Engine, asked: Mapping[int, Heard], begun: set[int]) -> None:
    """What waits is what has been submitted, has not ended and never had a row."""
    tokens = {
        id: len(one.task.ids) for id, one in asked.items() if id not in begun and not ended(one.records)
    }
    assert engine.loop.gate.waiting == sum(tokens.values())


def check_records(engine: Engine, asked: Mapping[int, Heard]) -> None:
    """All that was gained has been told, once, to whom it belongs, and adds up to what was counted."""
    counts = engine.loop.counts
    for id, one in asked.items():
        sequence = engine.loop.sequences.get(id)
        told = [id for record in one.records for id in record.ids]
        assert all(record.cached is None for record in one.records[1:]), "only the first tells of the prompt"
        assert not any(map(is_last, one.records[:-1])), "nothing follows the end"
        assert sequence is None or sequence.answer == told
    records = [record for one in asked.values() for record in one.records]
    began = [one for one in asked.values() if one.records and gained(one.records[0])]
    reasons = Counter("error" if r.error else r.reason for r in records if is_last(r))
    assert {reason: count for reason, count in counts.ends.items() if count} == reasons
    assert counts.generated_tokens == sum(len(record.ids) for record in records)
    assert counts.prompt_tokens == sum(len(one.task.ids) for one in began)
    assert counts.cached_tokens == sum(one.records[0].cached or 0 for one in began)
    assert counts.accepted_tokens <= counts.drafted_tokens


def check_rows(rows: Rows) -> None:
    """Every row is live, kept or free."""
    live = [sequence.row for sequence in rows.live]
    assert live == list(range(len(live)))
    free = set(range(rows.rows)) - set(live) - set(rows.kept)
    assert len(live) + len(rows.kept) + len(free) == rows.rows
    assert rows.rows * rows.columns <= rows.area or not rows.rows


def check_columns(rows: Rows, runner: FakeRunner) -> None:
    """Every row holds what it is said to, once the moves under way are done."""
    memory = moved(rows, runner)
    assert memory.shape.rows == rows.rows or not rows.rows
    for sequence in rows.live:
        assert memory.held(sequence.row, sequence.cached) == sequence.tokens[: sequence.cached]
        assert not sequence.cached or memory.sources[sequence.row] == sequence.source
        assert runner.resumes or not sequence.cached or memory.states[sequence.row] == sequence.cached
    for row, kept in rows.kept.items():
        assert memory.held(row, len(kept.tokens)) == kept.tokens


def check_pages(pages: Pages) -> None:
    """Every page is free, listed as often as is counted, or kept; those that several list are full for all,
    and begin alike."""
    listed = Counter(page for sequence in pages.live for page in sequence.pages)
    assert {page: count for page, count in pages.uses.items() if count} == listed
    assert sorted([*pages.free, *pages.kept, *listed]) == list(range(pages.count))
    holders: dict[int, tuple[int, list[int]]] = {}
    for sequence in pages.live:
        for index, page in enumerate(sequence.pages):
            if listed[page] > 1:
                end = (index + 1) * pages.size
                assert end <= sequence.cached, "nobody writes where another reads"
                assert holders.setdefault(page, (index, sequence.tokens[:end])) == (
                    index,
                    sequence.tokens[:end],
                )


def check_slots(pages: Pages, runner: PagedWitness) -> None:
    """Every page listed or kept holds what it is said to."""
    for sequence in pages.live:
        held = runner.held(sequence.pages, sequence.cached)
        assert list(held) == sequence.tokens[: sequence.cached]
    for name, page in pages.named.items():
        chain: list[bytes] = []
        lengthen(chain, runner.pages[page][-1], pages.size)
        assert chain and chain[-1] == name, "a page is known by the name of another"


def moved(rows: Rows, runner: FakeRunner) -> FakeRunner:
    """The runner as it will be when it has done the moves that are under way."""
    later = replace(
        runner,
        memory=[list(row) for row in runner.memory],
        sources=list(runner.sources),
        states=list(runner.states),
        batches=[],
    )
    for move in rows.moves:
        later._move(move)
    return later


def gained(record: Record) -> bool:
    return record.error is None and record.reason not in ("cancelled", "deadline")


def is_last(record: Record) -> bool:
    return bool(record.reason or record.error)


def ended(records: list[Record]) -> bool:
    return bool(records) and is_last(records[-1])
