"""A rank besides the first, in a process of its own: it loads its part of the model and does as it is told.

It ends when rank 0 closes the pipe or is gone. Knows orders and how each is obeyed; not who asked for what.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from inference.model import group
from inference.model.contrast import search
from inference.model.embed import embed
from inference.model.fit import Fitted
from inference.model.load import Loaded
from inference.model.ranks.holding import holding
from inference.model.ranks.local import localise
from inference.model.ranks.orders import Begin, Edited, End, Failed, Forward, Order, Ready, Resume, Step

log = logging.getLogger(__name__)

# Seconds that a rank which failed waits to hear that all have: else they wait for it, and it must end.
PATIENCE_S = 10.0

Work = Generator[Any, None, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How every rank comes to its model: the same functions with the same arguments."""

    count: int
    device: str
    prepare: Callable[[], None]
    load: Callable[[], Loaded]
    fit: Callable[[Any], Fitted]

    def follow(self) -> tuple[Loaded, Fitted]:
        """The model, or this rank's part of it, and how it runs. Raises ServerError."""
        self.prepare()
        loaded = self.load()
        localise(loaded.model)
        return loaded, self.fit(loaded.model)


def follow(rank: int, port: int, recipe: Recipe, pipe: Connection) -> None:
    """Be this rank until rank 0 has no more orders. What `multiprocessing` starts."""
    alone()
    try:
        group.join(group.meeting_at(port, recipe.count), rank, recipe.count, recipe.device)
        loaded, fitted = recipe.follow()
    except Exception as error:
        log.debug("rank %d cannot start", rank, exc_info=True)
        pipe.send(Failed(f"{type(error).__name__}: {error}"))
        return
    pipe.send(Ready(seat_of(fitted)))
    with suppress(EOFError), torch.inference_mode():
        Follower(rank, loaded.model, fitted, pipe).run()
    group.leave()
    os._exit(0)  # Python would take seconds to tidy up what the system takes back at once


def alone() -> None:
    """Leave signals to rank 0, which answers what it has begun, and end when it is gone."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()


def end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a rank is started by another process"
    wait([parent.sentinel])
    os._exit(1)  # whatever it computes, nobody will ask for it


def seat_of(fitted: Fitted) -> tuple[Any, ...]:
    runner = fitted.runner
    return fitted.name, runner.resumes, runner.max_rows, runner.context, runner.area


class Follower:
    """Obeys the orders that come through the pipe."""

    def __init__(self, rank: int, model: Any, fitted: Fitted, pipe: Connection) -> None:
        self.rank, self.runner, self.pipe = rank, fitted.runner, pipe
        self.kinds: Mapping[str, Callable[..., Any]] = {
            "embed": partial(embed, model),
            "search": partial(search, model, edit=self.edited),
            "hold": partial(holding, model, fitted.runner),
        }
        self.works: dict[int, Work] = {}

    def run(self) -> None:
        """Until there are no more; raises EOFError then."""
        while True:
            order = self.pipe.recv()
            try:
                self.obey(order)
            except EOFError:
                raise
            except Exception as error:
                self.fail(error)

    def obey(self, order: Order) -> None:
        match order:
            case Forward(batch):
                self.runner.forward(batch)
            case Begin(id, kind, given, named):
                self.works[id] = self.kinds[kind](*given, **named)
            case Step(id):
                next(self.works[id], None)
            case End(id):
                self.works.pop(id).close()

    def edited(self, logits: torch.Tensor) -> torch.Tensor:
        """What rank 0 made of logits that all ranks have."""
        order = self.pipe.recv()
        assert isinstance(order, Edited), "a search asks for it, and rank 0 does the same one"
        if order.logits is None:
            raise ValueError("rank 0 could not edit the logits")
        return torch.from_numpy(order.logits).to(logits.device)

    def fail(self, error: Exception) -> None:
        """Go on where all ranks failed alike; end where they did not, or they would wait for this one."""
        self.pipe.send(Failed(f"{type(error).__name__}: {error}"))
        if not self.pipe.poll(PATIENCE_S) or not isinstance(self.pipe.recv(), Resume):
            log.error("rank %d failed alone", self.rank, exc_info=error)
            os._exit(1)
