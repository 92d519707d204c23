"""Where sequences' tokens are kept, as the scheduler sees it: whoever runs has a seat in the memory.

Two memories keep this contract: rows.py, a rectangle, and pages.py.
"""

from collections.abc import Sequence as Several
from typing import Protocol

from inference.engine.sequence import Sequence
from inference.model.batch import Move


class Seating(Protocol):
    """The seating plan of one memory. Integers only: it decides, a runner carries out.

    max_rows  sequences that may have a seat at once
    context   tokens one of them may hold
    area      tokens that the memory holds
    keeps     what a seat held is found again by who begins like it
    live      the sequences that have a seat
    touched   tokens in whose places something was ever written, as far as the runner was told
    """

    max_rows: int
    context: int
    area: int
    keeps: bool
    live: list[Sequence]

    @property
    def touched(self) -> int: ...

    def seat(self, sequence: Sequence) -> bool:
        """Give sequence a seat and the longest prefix found in the memory; False where there is no room.

        Sets its row and cached; leaves it at least one token to compute. None is preempted soon after.
        """
        ...

    def widen(self) -> bool:
        """Have every seat hold all its sequence's tokens; False where the memory is too small for that."""
        ...

    def release(self, sequence: Sequence, trusted: bool = True) -> None:
        """Free its seat; sets its row to -1 and cached to 0. What it held can be found again, if trusted."""
        ...

    def awaits(self, sequence: Sequence) -> bool:
        """Whether a live sequence is about to compute a prefix that this one would compute a second time."""
        ...

    def spare(self, sequence: Sequence) -> int:
        """Tokens that its seat has room for behind its own."""
        ...

    def forget(self, lost: Several[Move] = ()) -> None:
        """Trust nothing in the memory: all seats free. lost: moves handed out of which nobody knows whether
        they were done; what they were to make blank still will be."""
        ...

    def shrink(self) -> None:
        """Make do with a smaller memory, where that can be: the present one was more than there is."""
        ...

    def take_moves(self) -> list[Move]:
        """What the runner must do before it computes, in order; handed out once."""
        ...

    def check(self) -> None:
        """Assert that the plan is sound."""
        ...
