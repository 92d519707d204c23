"""Answers by contrastive search: which requests may ask for it, and how it is begun.

Knows the engine's searches; how tokens are found is handed in.
"""

from collections.abc import Sequence

from inference.engine.engine import Engine
from inference.engine.search import Search, Seek
from inference.engine.sequence import Task
from inference.errors import BadRequest, NotImplementedHere
from inference.local.answer import Answer
from inference.local.limits import check_range
from inference.local.stream import Channel

MOST = 64  # candidates of a step: each has a copy of the answer's memory


def contrasted(engine: Engine, seek: Seek | None, task: Task, answers: Sequence[Answer]) -> Channel:
    """The channel of answers that are all alike. Raises BadRequest, NotImplementedHere, Unavailable."""
    check(task, seek is not None)
    assert seek is not None
    channel = Channel(answers, lambda places: search.cancel(places))
    channel.ids = range(len(answers))
    outlets = channel.outlets()
    search = Search(engine.loop, engine.sequence(task, outlets[0]), outlets, seek)
    engine.run(search.errand)
    return channel


def check(task: Task, able: bool) -> None:
    check_range("penalty_alpha", task.sampling.contrast, 0, 1)
    if not 2 <= task.sampling.top_k <= MOST:
        raise BadRequest("top_k", f"must be from 2 to {MOST} with penalty_alpha", task.sampling.top_k)
    if task.prompt_logprobs is not None:
        raise NotImplementedHere("the prompt's logprobs cannot be had with penalty_alpha")
    if not able:
        raise NotImplementedHere("penalty_alpha cannot be had with this model: it has no memory to be copied")
