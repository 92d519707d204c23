"""The interface through which the scheduler allocates KV memory.

Two implementations: contiguous.py, rows of one rectangle, and paged.py, pages of one pool.
"""

from collections.abc import Sequence as SequenceOf
from typing import Protocol

from inference.engine.chunking import Chunking
from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp, Runner


class KVCacheManager(Protocol):
    """Allocates KV memory to sequences. Integers only: it decides, a runner carries out the cache ops.

    max_sequences   sequences that may have memory at once
    context         tokens that one sequence may have
    kv_capacity     tokens that the memory can hold
    prefix_caching  whether a sequence may reuse the KV memory of an earlier one with the same prefix
    active          the sequences that have memory
    slots_per_page  tokens of a page (see model/batch.py, slots_of), once all ops of take_ops are carried out
    used_tokens     tokens of memory that active sequences use; a shared page counts once. Where layers with a
                    sliding window have pages of their own, the larger share counts
    touched_tokens  tokens of memory that were ever written, derived from allocations and cache ops
    """

    max_sequences: int
    context: int
    kv_capacity: int
    prefix_caching: bool
    active: list[Sequence]

    @property
    def slots_per_page(self) -> int: ...

    @property
    def used_tokens(self) -> int: ...

    @property
    def touched_tokens(self) -> int: ...

    def allocate(self, sequence: Sequence) -> bool:
        """Give sequence a row and the longest cached prefix; False if the memory is too small.

        Sets its row and num_computed_tokens; leaves at least one token to compute. Leaves memory for the
        active sequences to grow, so that none is preempted soon after.
        """
        ...

    def grow(self) -> bool:
        """Make room for all tokens of every active sequence; False if the memory is too small.

        Layers with a sliding window get room for the next token; `reserve` makes room for more.
        """
        ...

    def reserve(self, sequence: Sequence, num_tokens: int) -> int:
        """Make room for the next num_tokens tokens of an active sequence, at least one.

        Returns how many of them the next step may compute, at least one. The engine calls it for prompts.
        """
        ...

    def free(self, sequence: Sequence, reusable: bool = True) -> None:
        """Free the memory of sequence; sets its row to -1 and num_computed_tokens to 0.

        reusable: prefix caching may reuse its contents; otherwise they are cleared.
        """
        ...

    def should_wait_for_prefix(self, sequence: Sequence) -> bool:
        """Whether an active sequence is computing a prefix that `sequence` would otherwise compute again."""
        ...

    def num_free_tokens(self, sequence: Sequence) -> int:
        """Tokens that sequence can gain without a new allocation."""
        ...

    def reset(self, lost_ops: SequenceOf[CacheOp] = ()) -> None:
        """Discard all contents and free all sequences.

        lost_ops: results of take_ops that may not have been carried out; their Clear ops are issued again.
        """
        ...

    def shrink(self) -> None:
        """Use less memory from the next resize on, if it can be resized: the last size did not fit."""
        ...

    def take_ops(self) -> list[CacheOp]:
        """The ops that the runner must carry out before it computes, in order; each is returned once.

        Raises MemoryError; the next call then returns them.
        """
        ...

    def check_integrity(self) -> None:
        """Assert that the bookkeeping is consistent."""
        ...


def create_kv_cache_manager(runner: Runner, prefix_caching: bool, chunking: Chunking) -> KVCacheManager:
    """The manager for the runner's kind of KV memory."""
    bounds = {
        "max_sequences": runner.max_sequences,
        "context": runner.context,
        "kv_capacity": runner.kv_capacity,
        "page_size": runner.page_size,
    }
    if runner.capabilities.paged:
        assert not chunking.chunk_size, "a paged KV memory does not support chunks of a fixed size"
        return PagedKVCacheManager(
            prefix_caching=prefix_caching, window_groups=runner.window_groups, **bounds
        )
    return ContiguousKVCacheManager(prefix_caching=prefix_caching, chunking=chunking, **bounds)
