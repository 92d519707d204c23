"""Counts the events of random walks, so that a test fails if its walks do not reach them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.walks.machine import EngineWalk, run_walk_machine


def count_events(events: Iterable[str], kinds: int) -> Iterator[Counter[str]]:
    """The counts of all walks; after all kinds of walks have run, each event must have occurred."""
    counts: Counter[str] = Counter()
    yield counts
    missed = {event for event in events if not counts[event]}
    assert not missed or counts["kinds"] < kinds


def run_walks(
    walks: int,
    name: str,
    make_walk: Callable[[Counter[str]], EngineWalk],
    event_counts: Counter[str],
    *,
    shares: bool,
    drafts: bool,
    early: bool,
) -> None:
    """Runs some walks of a kind and checks that they reached the expected events.

    shares  common prefixes are computed once
    drafts  some tokens are drafted
    early   some steps are launched early
    """
    here: Counter[str] = Counter(kinds=1)
    run_walk_machine(walks, name, lambda: make_walk(here))
    event_counts += here
    assert here["length"]
    outcomes = here["cached_tokens"] > 0, here["accepted_tokens"] > 0, here["early"] > 0
    assert outcomes == (shares, drafts, early), here
