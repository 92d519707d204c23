"""A walk over batches: rows come and go, and every logit is checked against the tokens computed alone."""

import random
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Copy, Move, Runner, Shape, Swap
from tests.families import VOCAB

FIRST, LAST = 3, VOCAB - 1


@dataclass
class Row:
    """What a row will hold, how much of it it holds, and what is right: logits (len(tokens), V)."""

    tokens: list[int]
    source: list[int]
    truth: torch.Tensor
    held: int = 0

    @property
    def scale(self) -> torch.Tensor:
        return self.truth.abs().max()


@dataclass
class Walk:
    """Plays the engine for a runner: keeps its rows dense and feeds them.

    error    the largest difference seen between a logit and the truth, as a share of the largest logit
    checked  tokens whose logits were compared
    """

    model: PreTrainedModel
    runner: Runner
    seed: int = 0
    rows: list[Row] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    error: float = 0.0
    checked: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.moves.append(Shape(2, self.runner.step))

    def go(self, steps: int) -> None:
        """Take that many steps: rows join and leave in between, and not every row takes part in each."""
        for _ in range(steps):
            if len(self.rows) < self.runner.max_rows and (not self.rows or self.random.random() < 0.6):
                self.join(self.prompt())
            elif len(self.rows) > 1 and self.random.random() < 0.3:
                self.leave(self.random.randrange(len(self.rows)))
            self.step([self.take(row) for row in self.rows])

    def prompt(self) -> list[int]:
        return [self.random.randint(FIRST, LAST) for _ in range(self.random.randint(3, 14))]

    def join(self, prompt: list[int]) -> None:
        """A row of the prompt and 20 tokens more; for an encoder-decoder the prompt is the source."""
        if len(self.rows) == 2:
            self.moves.append(Shape(self.runner.max_rows, self.runner.step))
        more = [self.random.randint(FIRST, LAST) for _ in range(20)]
        source = prompt if self.runner.encodes else []
        tokens = [*(self.runner.start_ids if source else prompt), *more]
        self.rows.append(Row(tokens, source, plain(self.model, tokens, source)))

    def leave(self, row: int) -> None:
        """Row leaves, and the last one takes its place."""
        last = len(self.rows) - 1
        if row < last:
            self.moves.append(Swap(row, last, max(self.rows[row].held, self.rows[last].held)))
        self.rows[row] = self.rows[last]
        self.rows.pop()

    def fork(self, row: int, tokens: int) -> None:
        """A new row begins with the first tokens of `row`, copied, and goes on as a row of its own."""
        source = self.rows[row]
        self.join(source.tokens[:tokens])
        self.rows[-1].held = tokens
        self.moves.append(Copy(row, len(self.rows) - 1, tokens))

    def take(self, row: Row) -> int:
        """How many tokens the row takes next; 0 where it rests."""
        left = len(row.tokens) - row.held
        if self.runner.resumes:
            return min(left, self.random.choice((0, 1, 1, 1, 2, 5)))
        begins = len(row.tokens) - 20 if not row.source else len(self.runner.start_ids)
        return begins if not row.held else min(left, self.random.choice((0, 1, 1)))

    def step(self, takes: list[int]) -> None:
        """Every row takes its number of tokens; all their logits are compared."""
        busy = [(i, row, n) for i, (row, n) in enumerate(zip(self.rows, takes, strict=True)) if n]
        ids, starts = [], [0]
        for _, row, n in busy:
            ids += row.tokens[row.held : row.held + n]
            starts.append(len(ids))
        if not ids:
            return
        batch = Batch(
            ids=ids,
            starts=starts,
            cached=[row.held for _, row, _ in busy],
            rows=[i for i, _, _ in busy],
            want=range(len(ids)),
            moves=tuple(self.moves),
            sources={i: row.source for i, row, _ in busy if row.source and not row.held},
        )
        self.moves.clear()
        self.compare(self.runner.forward(batch), [(row, n) for _, row, n in busy])

    def compare(self, logits: torch.Tensor, taken: list[tuple[Row, int]]) -> None:
        at = 0
        for row, n in taken:
            truth = row.truth[row.held : row.held + n]
            self.error = max(self.error, ((logits[at : at + n] - truth).abs().max() / row.scale).item())
            row.held += n
            at += n
        assert logits.shape == (at, self.runner.vocab)
        self.checked += at


@torch.inference_mode()
def plain(model: PreTrainedModel, tokens: list[int], source: list[int]) -> torch.Tensor:
    """The model's own forward of the tokens alone, without any cache: logits (T, V)."""
    ids, sources = (torch.tensor([given], device=model.device) for given in (tokens, source))
    if source:
        return model(sources, decoder_input_ids=ids, use_cache=False).logits[0]
    return model(ids, use_cache=False).logits[0]
