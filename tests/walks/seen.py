"""What came to pass in walks is counted, so that a test can tell whether they led anywhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.walks.machine import Walk, take


def everything(events: Iterable[str], kinds: int) -> Iterator[Counter[str]]:
    """The counts of the walks of all kinds; once so many kinds have been walked, each event has come."""
    counts: Counter[str] = Counter()
    yield counts
    missed = {event for event in events if not counts[event]}
    assert not missed or counts["kinds"] < kinds


def walked(
    walks: int,
    name: str,
    made: Callable[[Counter[str]], Walk],
    seen: Counter[str],
    *,
    shares: bool,
    drafts: bool,
    early: bool,
) -> None:
    """Take some walks of a kind, and see that they led somewhere.

    shares  what prompts have in common is computed once
    drafts  some tokens are guessed
    early   some steps are begun before the last is over
    """
    here: Counter[str] = Counter(kinds=1)
    take(walks, name, lambda: made(here))
    seen += here
    assert here["length"]
    found = here["cached_tokens"] > 0, here["accepted_tokens"] > 0, here["early"] > 0
    assert found == (shares, drafts, early)
