"""One engine on one model, stepped by its caller, so that a step can be timed and looked into."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record
from inference.model import fit
from inference.model.place import length_of
from scripts.bench.hearth import BUDGET, ROWS, room, task
from scripts.bench.load import alike
from scripts.bench.models import build
from scripts.bench.terms import Terms

CONTEXT = 2048
PROMPT = 100
SETTLING = 25  # steps that rows may take besides: until all have begun, and a few more


class Served:
    """`fitted` says how the model runs."""

    def __init__(self, terms: Terms) -> None:
        terms.prepare()
        self.terms = terms
        self.model = build(terms.model, terms.dtype, terms.device)
        context = min(length_of(self.model.config) or CONTEXT, CONTEXT)
        self.fitted = fit.choose(self.model, max_rows=ROWS, context=context, kv_bytes=room(terms.device))
        self.engine = self.made()

    def made(self) -> Engine:
        return Engine(
            self.fitted.runner, Sampler(self.terms.vocab), max_batch_tokens=BUDGET, max_queued_tokens=10**9
        )

    def overlap(self, overlaps: bool) -> None:
        """Begin steps while the last one is computed, or no longer. Nobody may be served meanwhile."""
        self.fitted.runner.overlaps = overlaps
        self.engine = self.made()

    @contextmanager
    def decoding(self, rows: int, steps: int) -> Iterator[None]:
        """So many rows are there meanwhile, that have begun and decode for so many steps more."""
        load = alike(Random(rows), self.terms.vocab, rows, PROMPT, steps + SETTLING)
        heard = [Heard() for _ in load]
        ids = self.engine.submit([task(request) for request in load], heard)
        while min(each.tokens for each in heard) < 3:
            self.engine.step()
        yield
        self.engine.cancel(ids)
        while self.engine.step():
            pass

    def step(self) -> float:
        """The seconds of one step; it ends when its tokens are on the host."""
        began = time.perf_counter()
        self.engine.step()
        return time.perf_counter() - began


class Heard:
    """An outlet that counts."""

    def __init__(self) -> None:
        self.tokens = 0

    def put(self, record: Record) -> None:
        if record.error is not None:
            raise record.error
        self.tokens += len(record.ids)
