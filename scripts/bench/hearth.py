"""Our engine without a server: what is measured is scheduling, the model, sampling, handing out."""

import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial

import psutil
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.engine.worker import Worker
from inference.model import fit
from inference.model.place import OPEN_ENDED, length_of
from inference.sampling import Sampling
from scripts.bench import memory
from scripts.bench.contender import Apart
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import build
from scripts.bench.profile import Profile
from scripts.bench.terms import AUTO, Terms

# The server's own settings where they matter (config.py).
ROWS, BUDGET = 64, 512
SHARE = 0.2  # of the free memory for keys and values: another contender may want as much at the same time


class Hearth:
    """A Player: one engine on one model, kept between loads as a server keeps it.

    reuse, drafts  as Engine has them
    """

    def __init__(self, terms: Terms, *, reuse: bool = True, drafts: int = 0) -> None:
        terms.prepare()
        self.terms = terms
        worker = Worker("engine")
        fitted = worker.do(partial(opened, terms))
        self.about = fitted.seat
        self.engine = Engine(
            fitted.runner,
            Sampler(fitted.runner.vocab),
            max_batch_tokens=BUDGET,
            max_queued_tokens=10**9,
            reuse=reuse,
            drafts=drafts,
        )
        self.profile = Profile(self.engine) if terms.profile else None
        self.engine.start(worker)

    def run(self, load: Load) -> Run:
        memory.reset(self.terms.device)
        if self.profile:
            self.profile.begin()
        left = Left(len(load))
        boxes = [Box(left, time.perf_counter()) for _ in load]
        began, worked = time.perf_counter(), time.process_time()
        self.engine.submit([task(request) for request in load], boxes)
        left.none.wait()
        seconds = time.perf_counter() - began
        if left.error:
            raise left.error
        return Run(
            seconds,
            [box.stamps for box in boxes],
            sum(box.tokens for box in boxes),
            time.process_time() - worked,
            memory.peak_mb(self.terms.device),
            self.profile.end(seconds) if self.profile else {},
        )

    def stop(self) -> None:
        self.engine.stop()


def opened(terms: Terms) -> fit.Fitted:
    model = build(terms.model, terms.dtype, terms.device)
    return fit.choose(
        model,
        max_rows=ROWS,
        context=length_of(model.config) or OPEN_ENDED,
        kv_bytes=room(terms.device),
        quantise=terms.quantise,
        kinds=fit.KINDS if terms.seat == AUTO else (terms.seat,),
    )


class Left:
    """How many answers are still to come; `none` is set when there are none."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.none = threading.Event()
        self.error: Exception | None = None


@dataclass(slots=True)
class Box:
    """An Outlet that notes when tokens came."""

    left: Left
    began: float
    stamps: list[float] = field(default_factory=list)
    tokens: int = 0

    def put(self, record: Record) -> None:
        if record.ids:
            self.stamps.append(time.perf_counter() - self.began)
            self.tokens += len(record.ids)
        if record.reason or record.error:
            self.left.error = self.left.error or record.error
            self.left.count -= 1
            if not self.left.count:
                self.left.none.set()


def settled(terms: Terms) -> Terms:
    """The terms with the seat that our engine chooses now, so that two of it differ in nothing else."""
    if terms.seat != AUTO:
        return terms
    player = Apart(partial(Hearth, terms))
    player.stop()
    return replace(terms, seat=player.about)


def task(request: Request) -> Task:
    sampling = Sampling(
        greedy=not request.temperature,
        temperature=request.temperature or 1.0,
        top_k=request.top_k,
        top_p=request.top_p,
    )
    return Task(request.ids, request.tokens, sampling, seed=request.seed)


def room(device: str) -> int:
    """Bytes for keys and values."""
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else psutil.virtual_memory().available
    return int(SHARE * free)
