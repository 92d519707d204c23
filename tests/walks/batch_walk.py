"""A random walk over batches: rows join and leave, and every logit equals that of its tokens alone."""

import random
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel

from inference.model.batch import CacheOp, Copy, Resize, Runner, Swap, make_batch
from tests.tiny_models.families import VOCAB

FIRST, LAST = 3, VOCAB - 1


@dataclass
class WalkRow:
    """The tokens of a row, how many of them are computed, and the expected logits (len(tokens), V)."""

    tokens: list[int]
    encoder_ids: list[int]
    reference: torch.Tensor
    num_computed_tokens: int = 0

    @property
    def scale(self) -> torch.Tensor:
        return self.reference.abs().max()


@dataclass
class RunnerWalk:
    """Acts as the engine of a runner: keeps its rows dense and feeds them.

    error    the largest difference of a logit from the reference, relative to the largest logit
    checked  tokens whose logits were compared
    """

    model: PreTrainedModel
    runner: Runner
    seed: int = 0
    rows: list[WalkRow] = field(default_factory=list)
    cache_ops: list[CacheOp] = field(default_factory=list)
    error: float = 0.0
    checked: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.cache_ops.append(Resize(2, self.runner.page_size))

    def go(self, steps: int) -> None:
        """Takes this many steps: rows join and leave in between, and not every row takes part in each."""
        for _ in range(steps):
            if len(self.rows) < self.runner.max_sequences and (not self.rows or self.random.random() < 0.6):
                self.join(self.prompt())
            elif len(self.rows) > 1 and self.random.random() < 0.3:
                self.leave(self.random.randrange(len(self.rows)))
            self.step([self.choose_num_tokens(row) for row in self.rows])

    def prompt(self) -> list[int]:
        return [self.random.randint(FIRST, LAST) for _ in range(self.random.randint(3, 14))]

    def join(self, prompt: list[int]) -> None:
        """Adds a row of the prompt and 20 more tokens; for an encoder-decoder the prompt is the encoder's
        input.
        """
        if len(self.rows) == 2:
            self.cache_ops.append(Resize(self.runner.max_sequences, self.runner.page_size))
        more = [self.random.randint(FIRST, LAST) for _ in range(20)]
        encoder_ids = prompt if self.runner.capabilities.encoder_decoder else []
        tokens = [*(self.runner.start_ids if encoder_ids else prompt), *more]
        self.rows.append(WalkRow(tokens, encoder_ids, plain(self.model, tokens, encoder_ids)))

    def leave(self, row: int) -> None:
        """Removes the row; the last one takes its place."""
        last = len(self.rows) - 1
        if row < last:
            self.cache_ops.append(
                Swap(row, last, max(self.rows[row].num_computed_tokens, self.rows[last].num_computed_tokens))
            )
        self.rows[row] = self.rows[last]
        self.rows.pop()

    def fork(self, row: int, tokens: int) -> None:
        """Adds a row that begins with a copy of the first tokens of `row`."""
        parent = self.rows[row]
        self.join(parent.tokens[:tokens])
        self.rows[-1].num_computed_tokens = tokens
        self.cache_ops.append(Copy(row, len(self.rows) - 1, tokens))

    def choose_num_tokens(self, row: WalkRow) -> int:
        """How many tokens the row computes next; 0 if it pauses."""
        remaining = len(row.tokens) - row.num_computed_tokens
        if self.runner.capabilities.chunked_prefill:
            return min(remaining, self.random.choice((0, 1, 1, 1, 2, 5)))
        begins = len(row.tokens) - 20 if not row.encoder_ids else len(self.runner.start_ids)
        return begins if not row.num_computed_tokens else min(remaining, self.random.choice((0, 1, 1)))

    def step(self, num_tokens: list[int]) -> None:
        """Each row computes its number of tokens; all their logits are compared."""
        busy = [(i, row, n) for i, (row, n) in enumerate(zip(self.rows, num_tokens, strict=True)) if n]
        ids, starts = [], [0]
        for _, row, n in busy:
            ids += row.tokens[row.num_computed_tokens : row.num_computed_tokens + n]
            starts.append(len(ids))
        if not ids:
            return
        batch = make_batch(
            token_ids=ids,
            query_start_loc=starts,
            num_computed_tokens=[row.num_computed_tokens for _, row, _ in busy],
            rows=[i for i, _, _ in busy],
            logits_indices=range(len(ids)),
            cache_ops=tuple(self.cache_ops),
            encoder_inputs={
                i: row.encoder_ids for i, row, _ in busy if row.encoder_ids and not row.num_computed_tokens
            },
            page_size=self.runner.page_size,
        )
        self.cache_ops.clear()
        self.compare(self.runner.forward(batch), [(row, n) for _, row, n in busy])

    def compare(self, logits: torch.Tensor, computed_rows: list[tuple[WalkRow, int]]) -> None:
        at = 0
        for row, n in computed_rows:
            reference = row.reference[row.num_computed_tokens : row.num_computed_tokens + n]
            self.error = max(self.error, ((logits[at : at + n] - reference).abs().max() / row.scale).item())
            row.num_computed_tokens += n
            at += n
        assert logits.shape == (at, self.runner.vocab)
        self.checked += at


@torch.inference_mode()
def plain(model: PreTrainedModel, tokens: list[int], encoder_ids: list[int]) -> torch.Tensor:
    """The model's own forward of the tokens alone, without any cache: logits (T, V)."""
    ids, encoder_batch = (
        torch.tensor([token_ids], device=model.device) for token_ids in (tokens, encoder_ids)
    )
    if encoder_ids:
        return model(encoder_batch, decoder_input_ids=ids, use_cache=False).logits[0]
    return model(ids, use_cache=False).logits[0]
