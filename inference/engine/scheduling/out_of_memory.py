"""Handles a step that ran out of memory: shrinks the next step, or discards all that the scheduler knows.

Knows the scheduler and its KV memory; knows no outputs.
"""

import logging
from collections.abc import Sequence as SequenceOf

from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp, Resize

log = logging.getLogger(__name__)


def shrink_next_step(
    scheduler: Scheduler, error: Exception, cache_ops: SequenceOf[CacheOp], can_repeat: bool
) -> Sequence | None:
    """Shrink the next step after one that ran out of memory. Returns the sequence that can never fit, if any.

    The failed step computed nothing. The contents of the KV memory are discarded if cache ops may be half
    done, or if a recurrent state may be half advanced, so that the step cannot be repeated.
    """
    kv_cache_manager = scheduler.kv_cache_manager
    oversized = scheduler.shrink_budget()
    if any(isinstance(op, Resize) for op in cache_ops):
        kv_cache_manager.shrink()
    if cache_ops or not can_repeat:
        scheduler.reset(cache_ops)
    log.warning(
        "step out of memory token_budget=%d max_running=%d kv_capacity=%d error=%r",
        scheduler.limits.token_budget,
        scheduler.limits.max_running,
        kv_cache_manager.kv_capacity,
        error,
    )
    return oversized
