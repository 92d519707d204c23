"""What a model's KV memory costs, and how many tokens a number of bytes holds.

Layers with a sliding window have pages of their own: only tokens that the window still reaches take memory
there. Knows bytes, tokens and pages; no tensors, no devices.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# A memory that is too small for the windows of all rows is divided so that it holds most sequences of this
# length.
TYPICAL_TOKENS = 2048
SMALL_CHUNK = 512  # tokens of a prompt that a step computes where memory is short, and no loss of speed yet


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """The layers with one sliding window: they share a page table and `num_pages` pages.

    window     tokens that a token attends to, itself included
    null_page  stands in a page table for the pages that the window has left; zeros, nothing is written there.
               The page before it is the padding page (see kv_pool.py)
    """

    window: int
    num_pages: int

    @property
    def null_page(self) -> int:
        return self.num_pages + 1


class KVLimits(NamedTuple):
    """The sizes of a runner that its KV memory must suffice for.

    max_sequences     rows that run at once
    context           tokens of a row
    max_batch_tokens  tokens of the largest step
    page_size         tokens of a page; 1 for contiguous memory
    """

    max_sequences: int
    context: int
    max_batch_tokens: int
    page_size: int

    @property
    def max_tokens(self) -> int:
        """Tokens of all rows with the whole context; a row's last page may be partly filled."""
        return self.max_sequences * self.whole_pages(self.context)

    def kept_tokens(self, window: int) -> int:
        """Tokens, in whole pages, that the layers with this window hold at most.

        The tokens of the largest step are stored before the pages behind the windows are free.
        """
        return self.max_sequences * self.row_tokens(window) + self.whole_pages(self.max_batch_tokens)

    def min_kept_tokens(self, window: int) -> int:
        """Tokens, in whole pages, that they must hold at least: one row whose prompt has small chunks."""
        return self.row_tokens(window) + self.whole_pages(min(self.max_batch_tokens, SMALL_CHUNK))

    def row_tokens(self, window: int) -> int:
        """Tokens that one row keeps to decode: the pages of its window, and one that it grows into."""
        return (window_pages(window, self.page_size) + 1) * self.page_size

    def whole_pages(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_size) * self.page_size


@dataclass(frozen=True, slots=True)
class KVCost:
    """Bytes of KV memory.

    per_token  of each token, in the layers that keep all tokens
    per_row    of each row in addition to its tokens, such as recurrent states
    windowed   (window, bytes of each token in the layers with this sliding window), ascending
    """

    per_token: int = 0
    per_row: int = 0
    windowed: tuple[tuple[int, int], ...] = ()

    @property
    def per_recent_token(self) -> int:
        """Bytes of a token that is within every window."""
        return self.per_token + sum(num_bytes for _, num_bytes in self.windowed)

    def sequence_bytes(self, num_tokens: int, limits: KVLimits) -> int:
        """Bytes that one sequence of num_tokens tokens needs to run alone."""
        return self.per_row + self._token_bytes(num_tokens, limits.min_kept_tokens)

    def useful_bytes(self, num_tokens: int, limits: KVLimits) -> int:
        """Bytes that num_tokens tokens take at most, however they are divided among the rows."""
        return self.per_row * limits.max_sequences + self._token_bytes(num_tokens, limits.kept_tokens)

    def required_bytes(self, limits: KVLimits) -> int:
        """The least bytes to run: one row of the whole context, and what each other row takes when empty."""
        empty_rows = self.per_row * (limits.max_sequences - 1)
        return self.sequence_bytes(limits.context, limits) + empty_rows

    def max_sequence_tokens(self, num_bytes: int, limits: KVLimits) -> int:
        """The longest sequence, of at most the context, that `num_bytes` bytes hold; below 0 if none."""
        return last_fitting(lambda n: self.sequence_bytes(n, limits) <= num_bytes, limits.context)

    def max_tokens(self, num_bytes: int, limits: KVLimits) -> int:
        """Tokens that `num_bytes` bytes hold: at least one whole context, if required_bytes allows it.

        The bytes are divided among the windows as sequences of TYPICAL_TOKENS need them.
        """
        num_tokens = last_fitting(lambda n: self._divided_bytes(n, limits) <= num_bytes, limits.max_tokens)
        return max(num_tokens, limits.context if self.required_bytes(limits) <= num_bytes else 0)

    def window_groups(self, num_tokens: int, num_bytes: int, limits: KVLimits) -> tuple[WindowGroup, ...]:
        """The windows with pages of their own, in a memory of num_bytes bytes that holds num_tokens tokens.

        A group holds what all rows keep, or what the other layers leave. A window whose group would be no
        smaller than the pages of all tokens has none.
        """
        missing_bytes = max(0, self.useful_bytes(num_tokens, limits) - num_bytes)
        extents = {
            window: (
                min(num_tokens, limits.min_kept_tokens(window)),
                min(num_tokens, limits.kept_tokens(window)),
            )
            for window, _ in self.windowed
        }
        optional_bytes = sum(
            size * (extents[window][1] - extents[window][0]) for window, size in self.windowed
        )
        groups = []
        for window, (least, most) in extents.items():
            missing_tokens = -(-missing_bytes * (most - least) // max(1, optional_bytes))
            num_pages = max(least, most - missing_tokens) // limits.page_size
            if num_pages < num_tokens // limits.page_size:
                groups.append(WindowGroup(window, num_pages))
        return tuple(groups)

    def divided_by(self, count: int) -> "KVCost":
        """The cost in one of `count` processes that divide the KV heads."""
        return KVCost(
            -(-self.per_token // count),
            -(-self.per_row // count),
            tuple((window, -(-num_bytes // count)) for window, num_bytes in self.windowed),
        )

    def __add__(self, other: "KVCost") -> "KVCost":
        windowed = Counter(dict(self.windowed)) + Counter(dict(other.windowed))
        return KVCost(
            self.per_token + other.per_token, self.per_row + other.per_row, tuple(sorted(windowed.items()))
        )

    def __sub__(self, other: "KVCost") -> "KVCost":
        windowed = Counter(dict(self.windowed)) - Counter(dict(other.windowed))
        return KVCost(
            self.per_token - other.per_token, self.per_row - other.per_row, tuple(sorted(windowed.items()))
        )

    def _divided_bytes(self, num_tokens: int, limits: KVLimits) -> int:
        """Bytes of a memory for num_tokens tokens of sequences of TYPICAL_TOKENS.

        The layers with a window hold fewer tokens than the others. At least as many as halve the number of
        sequences that are shorter than the window, compared with a memory in which all layers hold the same.
        """
        typical_tokens = min(TYPICAL_TOKENS, limits.context)
        half_share = self.per_token / max(1, self.per_token + self.per_recent_token)

        def kept_tokens(window: int) -> int:
            share = max(limits.row_tokens(window) / typical_tokens, half_share)
            least = max(limits.min_kept_tokens(window), int(share * num_tokens))
            return min(limits.kept_tokens(window), least)

        return self.per_row * limits.max_sequences + self._token_bytes(num_tokens, kept_tokens)

    def _token_bytes(self, num_tokens: int, kept_tokens: Callable[[int], int]) -> int:
        """Bytes of num_tokens tokens, of which the layers of a window hold at most kept_tokens(window)."""
        windowed = sum(size * min(num_tokens, kept_tokens(window)) for window, size in self.windowed)
        return self.per_token * num_tokens + windowed


def window_pages(window: int, page_size: int) -> int:
    """Pages over which the last `window` tokens of a row extend at most."""
    return -(-(window - 1) // page_size) + 1


def last_fitting(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number up to `limit` that fits; -1 if 0 does not. Whatever is less than it fits too."""
    low, high = -1, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
