"""What every rank does at the same time, as rank 0 does it: the engine's steps, embeddings, searches; telling
what it holds.

Only rank 0 looks at the outcome. Knows the engine's Runner and which orders say what it does.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from typing import Any, cast

import torch

from inference.model import contrast, embed
from inference.model.batch import Batch, Runner
from inference.model.contrast import Edit
from inference.model.fit import Fitted
from inference.model.held import Held, held
from inference.model.load import Loaded
from inference.model.ranks.follower import Recipe
from inference.model.ranks.holding import holding
from inference.model.ranks.leader import Ranks
from inference.model.ranks.orders import Begin, Edited, End, Forward, Step

Holding = Generator[None, None, list[Held]]


class Alone:
    """One process has the whole model."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def start(self) -> tuple[Loaded, Fitted]:
        """The model, and how it runs. Raises ServerError."""
        return self.recipe.follow()

    def runner(self, runner: Runner) -> Runner:
        return runner

    embed = staticmethod(embed.embed)
    search = staticmethod(contrast.search)

    def held(self, model: Any, runner: Runner, gpus: Sequence[int], afresh: bool) -> Holding:
        """What each process holds of memory: this one."""
        yield
        return [held(model, runner, gpus, afresh)]

    def watch_with(self, tell: Callable[[str], None]) -> None:
        """Nobody else can be lost."""

    def close(self) -> None:
        """Nobody else is there."""


class Together:
    """Several processes have parts of the model, this one as rank 0."""

    def __init__(self, recipe: Recipe) -> None:
        self.ranks = Ranks(recipe)
        self.start, self.close = self.ranks.start, self.ranks.close
        self.watch_with = self.ranks.watch_with
        self._ids = count()

    def runner(self, runner: Runner) -> Runner:
        return cast(Runner, RankedRunner(runner, self.ranks))

    def embed(self, model: Any, inputs: Sequence[Sequence[int]]) -> Generator[None, None, list[embed.Vector]]:
        """embed.embed, on every rank."""
        return self._follow(embed.embed(model, inputs), Begin(next(self._ids), "embed", (inputs,)))

    def search(
        self, model: Any, ids: Sequence[int], source: Sequence[int], *, k: int, alpha: float, edit: Edit
    ) -> Iterator[int]:
        """contrast.search, on every rank: rank 0 edits the logits and sends them to the others."""

        def edited(logits: torch.Tensor) -> torch.Tensor:
            try:
                chosen = edit(logits)
            except Exception:
                self.ranks.send(Edited(None))
                raise
            self.ranks.send(Edited(chosen.cpu().numpy()))
            return chosen

        work = contrast.search(model, ids, source, k=k, alpha=alpha, edit=edited)
        return self._follow(work, Begin(next(self._ids), "search", (ids, source), {"k": k, "alpha": alpha}))

    def held(self, model: Any, runner: Runner, gpus: Sequence[int], afresh: bool) -> Holding:
        """What each rank holds of memory; where GPUs are asked for, each of its own."""
        return self._follow(
            holding(model, runner, gpus, afresh), Begin(next(self._ids), "hold", (tuple(gpus), afresh))
        )

    def _follow(self, work: Any, begin: Begin) -> Generator[Any, None, Any]:
        """The work, each of its steps one of every rank's."""
        self.ranks.send(begin)
        try:
            while True:
                self.ranks.send(Step(begin.id))
                try:
                    found = next(work)
                except StopIteration as done:
                    return done.value
                except Exception:
                    self.ranks.settle()
                    raise
                yield found
        finally:
            work.close()
            if not self.ranks.lost:
                self.ranks.send(End(begin.id))


class RankedRunner:
    """A Runner (see batch.py) whose steps every rank computes; all else is the runner's of rank 0."""

    def __init__(self, runner: Runner, ranks: Ranks) -> None:
        self._runner = runner
        self._ranks = ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits (W, V), as the runner has them. Raises Unavailable once a rank is lost."""
        self._ranks.send(Forward(batch))
        try:
            return self._runner.forward(batch)
        except Exception:
            self._ranks.settle()
            raise


def gathered(recipe: Recipe) -> Alone | Together:
    """Whoever computes the model; `start` comes first, `close` last."""
    return Together(recipe) if recipe.count > 1 else Alone(recipe)
