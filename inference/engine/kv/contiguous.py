"""Contiguous KV memory: rows x columns, token t of a sequence is in column t of its row.

Integers only: the manager decides the cache ops, a runner carries them out. Active rows are 0 … R-1, so that
decode reads a view instead of a copy; rows above R-1 keep the contents of freed rows for prefix caching.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

from inference.engine.chunking import UNCHUNKED, Chunking
from inference.engine.kv.high_water import HighWaterMark
from inference.engine.kv.prefix import MIN_GAIN, MIN_PREFIX, longest_prefix
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp, Clear, Copy, Resize, Swap


@dataclass(slots=True)
class EvictableRow:
    """The tokens in a free row, the cache key of their sequence, and when they were last used."""

    token_ids: list[int]
    cache_key: tuple[str, ...]
    last_used: int


class ContiguousKVCacheManager:
    """A KVCacheManager (see manager.py). The memory starts as 0 × 0: the first allocation sets its shape.

    num_rows     rows of the memory
    num_columns  columns of the memory: tokens of a row
    active       active[i] is the sequence in row i
    evictable    the contents of rows above the active ones, by row
    cache_ops    ops that the runner has yet to carry out, in order
    """

    def __init__(
        self,
        *,
        max_sequences: int,
        context: int,
        kv_capacity: int,
        page_size: int,
        prefix_caching: bool,
        chunking: Chunking = UNCHUNKED,
    ) -> None:
        self.max_sequences = max_sequences
        self.context = min(context, kv_capacity)
        self.kv_capacity = kv_capacity
        self.page_size = page_size
        self.prefix_caching = prefix_caching
        self.chunking = chunking
        self.num_rows = 0
        self.num_columns = 0
        self.active: list[Sequence] = []
        self.evictable: dict[int, EvictableRow] = {}
        self.cache_ops: list[CacheOp] = []
        self._high_water = HighWaterMark()
        self._clock = 0
        self._needs_clear = False  # a Clear was lost: any row may hold NaN

    def allocate(self, sequence: Sequence) -> bool:
        """Give sequence the next row and the longest prefix in any row; False if the memory is too small.

        Sets its row and num_computed_tokens; leaves at least one token to compute. Requires `page_size`
        columns beyond the sequence's tokens; a resize leaves as many to each active sequence, so that none is
        preempted soon after.
        """
        row, needed = len(self.active), self._num_columns_needed(sequence)
        if row >= self.num_rows or needed > self.num_columns:
            needed = max(needed, *map(self._num_columns_needed, self.active)) if self.active else needed
            if not self._resize(row + 1, needed):
                return False
        source_row, num_shared = self._best_prefix(sequence)
        self._load_prefix(row, source_row, num_shared)
        sequence.row, sequence.num_computed_tokens = row, num_shared
        self.active.append(sequence)
        return True

    def grow(self) -> bool:
        """Make every row long enough for its sequence; False if the memory is too small."""
        needed = max([len(sequence.token_ids) for sequence in self.active], default=0)
        return needed <= self.num_columns or self._resize(len(self.active), needed)

    def reserve(self, sequence: Sequence, num_tokens: int) -> int:
        """Returns num_tokens: `grow` and `allocate` make room for whole prompts."""
        return num_tokens

    def free(self, sequence: Sequence, reusable: bool = True) -> None:
        """Free the row of sequence; the last active sequence moves into it.

        The freed contents move above the active rows, where prefix caching finds them; if not reusable, they
        are cleared. Sets the row of sequence to -1 and num_computed_tokens to 0.
        """
        row, last = sequence.row, len(self.active) - 1
        if not reusable:
            self.cache_ops.append(Clear(row))
        is_cached = self.prefix_caching and reusable and not sequence.pooling
        num_cached = self._shareable(sequence) if is_cached else 0
        cached_ids = sequence.token_ids[:num_cached]
        mover = self.active.pop()
        if row < last:
            self.active[row], mover.row = mover, row
            self._swap(row, last, max(mover.num_computed_tokens, len(cached_ids)))
        if len(cached_ids) >= MIN_PREFIX:
            self.evictable[last] = EvictableRow(cached_ids, sequence.cache_key, self._tick())
        sequence.clear_placement()

    def should_wait_for_prefix(self, sequence: Sequence) -> bool:
        """Whether an active sequence is computing a prefix that `sequence` can reuse.

        The prefix must exceed the longest cached one by MIN_GAIN tokens.
        """
        if not (self.prefix_caching and sequence.may_reuse_prefix):
            return False
        num_shareable = self.chunking.num_shareable_tokens
        computing = [
            s for s in self.active if s.num_uncomputed_tokens > 1 and s.cache_key == sequence.cache_key
        ]
        candidates = [(s.row, s.token_ids, num_shareable(s, len(s.token_ids))) for s in computing]
        num_promised = num_shareable(sequence, longest_prefix(sequence.token_ids, candidates)[1])
        return num_promised >= MIN_GAIN and num_promised - self._best_prefix(sequence)[1] >= MIN_GAIN

    def num_free_tokens(self, sequence: Sequence) -> int:
        return self.num_columns - len(sequence.token_ids)

    def reset(self, lost_ops: SequenceOf[CacheOp] = ()) -> None:
        """Discard all contents: no row is active, the shape is 0 × 0."""
        self._needs_clear |= any(isinstance(op, Clear) for op in (*lost_ops, *self.cache_ops))
        for sequence in self.active:
            sequence.clear_placement()
        self.active.clear()
        self.evictable.clear()
        self.cache_ops.clear()
        self.num_rows = self.num_columns = 0

    def shrink(self) -> None:
        """Reduce kv_capacity by a quarter, but not below one full sequence; the next resize applies it."""
        self.kv_capacity = max(self.context, self.kv_capacity * 3 // 4)

    def take_ops(self) -> list[CacheOp]:
        self._high_water.apply(self.cache_ops)
        self._high_water.mark_written(
            (row, max(len(s.token_ids), len(s.encoder_ids))) for row, s in enumerate(self.active)
        )
        cache_ops, self.cache_ops = self.cache_ops, []
        return cache_ops

    @property
    def slots_per_page(self) -> int:
        return self.num_columns

    @property
    def used_tokens(self) -> int:
        return sum(len(sequence.token_ids) for sequence in tuple(self.active))

    @property
    def touched_tokens(self) -> int:
        return self._high_water.num_tokens

    def check_integrity(self) -> None:
        assert len(self.active) <= self.num_rows <= self.max_sequences
        assert self.num_columns <= self.context and (
            self.num_columns == self.context or self.num_columns % self.page_size == 0
        )
        for row, sequence in enumerate(self.active):
            assert sequence.row == row, (
                f"sequence {sequence.id} is active in row {row}, but its row is {sequence.row}"
            )
            assert sequence.num_computed_tokens <= min(len(sequence.token_ids), self.num_columns)
        for row, cached in self.evictable.items():
            assert len(self.active) <= row < self.num_rows, f"evictable row {row} is active or out of range"
            assert len(cached.token_ids) <= self.num_columns

    def _num_columns_needed(self, sequence: Sequence) -> int:
        return min(len(sequence.token_ids) + self.page_size, sequence.max_len, self.context)

    def _resize(self, num_rows: int, num_columns: int) -> bool:
        """Resize to at least num_rows × num_columns; False if that exceeds kv_capacity or max_sequences.

        To leave room to grow, columns are doubled if they fit, and each row gets at least the columns that
        max_sequences rows could have at once.
        """
        min_columns = self._round_up(num_columns)
        if num_rows > self.max_sequences or num_rows * min_columns > self.kv_capacity:
            return False
        doubled = min(self._round_up(2 * num_columns), self._round_down(self.kv_capacity // num_rows))
        fair_share = min(self.context, self._round_down(self.kv_capacity // self.max_sequences))
        self.num_columns = max(min_columns, doubled, fair_share)
        self.num_rows = min(self.max_sequences, self.kv_capacity // self.num_columns)
        self.cache_ops.append(Resize(self.num_rows, self.num_columns))
        if self._needs_clear:
            self.cache_ops += map(Clear, range(self.num_rows))
            self._needs_clear = False
        self.evictable = {
            row: replace(cached, token_ids=cached.token_ids[: self.num_columns])
            for row, cached in self.evictable.items()
            if row < self.num_rows
        }
        return True

    def _round_up(self, num_columns: int) -> int:
        return min(self.context, -(-num_columns // self.page_size) * self.page_size)

    def _round_down(self, num_columns: int) -> int:
        return num_columns // self.page_size * self.page_size

    def _best_prefix(self, sequence: Sequence) -> tuple[int, int]:
        """The row with the longest prefix of sequence, and the prefix length; (-1, 0) if none."""
        if not (self.prefix_caching and sequence.may_reuse_prefix):
            return -1, 0
        candidates = [
            (row, cached.token_ids, len(cached.token_ids))
            for row, cached in self.evictable.items()
            if cached.cache_key == sequence.cache_key
        ]
        candidates += [
            (other.row, other.token_ids, self._shareable(other))
            for other in self.active
            if other.cache_key == sequence.cache_key
        ]
        source_row, num_matched = longest_prefix(sequence.token_ids, candidates)
        num_shared = self.chunking.num_shareable_tokens(sequence, num_matched)
        return (source_row, num_shared) if num_shared else (-1, 0)

    def _shareable(self, sequence: Sequence) -> int:
        """How many of the computed tokens of sequence another sequence may reuse."""
        return self.chunking.num_shareable_tokens(sequence, sequence.num_computed_tokens)

    def _load_prefix(self, row: int, source_row: int, num_shared: int) -> None:
        """Make row begin with the shared tokens of source_row; the least recently used contents are evicted.

        An evictable source row is used itself if at least half of it is shared. Otherwise the prefix is
        copied, as from an active row, so that a short common prefix does not evict a long cached row.
        """
        evicted = self.evictable.pop(row, None)
        source_content = evicted if source_row == row else self.evictable.get(source_row)
        if source_content and 2 * num_shared >= len(source_content.token_ids):
            self._take_over_row(row, source_row, num_shared, evicted)
            return
        if source_content:
            source_content.last_used = self._tick()
        if evicted:
            self._spill(row, evicted)
        if num_shared and source_row != row:
            self.cache_ops.append(Copy(source_row, row, num_shared))

    def _take_over_row(
        self, row: int, source_row: int, num_shared: int, evicted: EvictableRow | None
    ) -> None:
        if source_row == row:
            return
        del self.evictable[source_row]
        if evicted:
            self._swap(row, source_row, max(num_shared, len(evicted.token_ids)))
            self.evictable[source_row] = evicted
        else:
            self.cache_ops.append(Copy(source_row, row, num_shared))

    def _spill(self, row: int, evicted: EvictableRow) -> None:
        """Copy the evicted contents of row over the least recently used row above it, if that is older."""
        last_used = {
            other: self.evictable[other].last_used if other in self.evictable else 0
            for other in range(row + 1, self.num_rows)
        }
        victim = min(last_used, key=last_used.__getitem__, default=row)
        if last_used.get(victim, evicted.last_used) < evicted.last_used:
            self.cache_ops.append(Copy(row, victim, len(evicted.token_ids)))
            self.evictable[victim] = evicted

    def _swap(self, a: int, b: int, num_columns: int) -> None:
        if num_columns:
            self.cache_ops.append(Swap(a, b, num_columns))

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
