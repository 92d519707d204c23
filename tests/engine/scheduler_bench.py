"""A scheduler over a KV memory of integers, and its steps."""

from itertools import count

from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.engine.sequence import Sequence
from tests.engine.generation_requests import make_request

NO_SINK = None  # no output is sent in these tests
ids = count()


def make_scheduler(
    budget: int = 64,
    whole_prompts: bool = False,
    admission: WaitingServedRatio | None = None,
    **changes: object,
) -> Scheduler:
    shape = {
        "max_sequences": 8,
        "context": 1024,
        "kv_capacity": 8192,
        "page_size": 16,
        "prefix_caching": not whole_prompts,
    } | changes
    return Scheduler(
        ContiguousKVCacheManager(**shape),
        max_batch_tokens=budget,
        whole_prompts=whole_prompts,
        admission_policy=admission,
    )


def make_sequence(length: int, token: int | None = None, source: int = 0, **options: object) -> Sequence:
    """A sequence whose prompt shares nothing with others, unless a token to repeat is given."""
    id = next(ids)
    prompt = [id + 1000 if token is None else token] * length
    return Sequence(id, make_request(tuple(prompt), 500, **options), NO_SINK, prompt, (1,) * source)


def enqueue(scheduler: Scheduler, *sequences: Sequence) -> None:
    scheduler.waiting += sequences


def step(scheduler: Scheduler) -> dict[int, int]:
    """Schedule and compute; id → tokens computed."""
    shares = scheduler.schedule()
    assert [share[0].row for share in shares] == sorted(share[0].row for share in shares)
    for sequence, num_tokens in shares:
        sequence.num_computed_tokens += num_tokens
        if sequence.num_uncomputed_tokens == 0:
            sequence.token_ids.append(7)
    scheduler.kv_cache_manager.check_integrity()
    return {sequence.id: num_tokens for sequence, num_tokens in shares}
