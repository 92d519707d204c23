"""A few tokens computed by a runner in every way that an engine may ask, against the model's plain forward.

Knows runners and token ids; not which seats there are.
"""

from itertools import accumulate

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Copy, Move, Runner, Shape, Swap
from inference.model.solo import SoloRunner

Takes = tuple[tuple[int, int], ...]  # (row, tokens) of each row that takes part in a step
Steps = tuple[tuple[tuple[Move, ...], Takes], ...]

ROWS, COLUMNS = 4, 16
SHARED = 6  # tokens that the last prompt shares with the second

# Prompts together, some in pieces; rows that join late, rest, trade places, begin with a copied prefix.
RESUMED: Steps = (
    ((Shape(3, 8),), ((0, 3), (1, 5))),
    ((Shape(ROWS, COLUMNS),), ((0, 1), (1, 4), (2, 6))),
    ((), ((0, 1), (2, 3))),
    ((Copy(1, 3, SHARED),), ((0, 1), (1, 3), (3, 1))),
    ((Swap(0, 3, 8),), ((0, 1), (1, 1), (2, 1), (3, 1))),
    ((), ((0, 3), (1, 1), (2, 2), (3, 2))),
)
# The same where memory is in pages, and so nothing moves.
PAGED: Steps = tuple(
    ((), takes)
    for takes in (
        ((0, 3), (1, 5)),
        ((0, 1), (1, 4), (2, 6)),
        ((0, 1), (2, 3), (3, 6)),
        ((0, 1), (1, 3), (3, 1)),
        ((0, 1), (1, 1), (2, 1), (3, 1)),
        ((0, 3), (1, 1), (2, 2), (3, 2)),
    )
)
# Whole prompts, then one token at a time.
WHOLE: Steps = (
    ((Shape(2, 8),), ((0, 3),)),
    ((Shape(ROWS, COLUMNS),), ((0, 1), (1, 7))),
    ((), ((0, 1), (1, 1), (2, 5))),
    ((Swap(0, 2, 8),), ((0, 1), (2, 1), (3, 4))),
    ((), ((0, 1), (1, 1), (2, 1), (3, 1))),
    ((), ((0, 1), (1, 1), (2, 1))),
)


class Trial:
    """Prompts for a model, and the logits that are right for them.

    truths  (T, V) for each prompt, from the model's own forward of the prompt alone
    spread  their standard deviation, in which every error is counted
    noise   by how much logits change with the tokens computed after theirs: rounding in another order, and
            where it is more, a model that sees later tokens
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.ids = ordinary_ids(model)
        self.alone = SoloRunner(model, max_rows=1, context=COLUMNS)
        self.sources = [self.some(row, 3 + 2 * row) for row in range(ROWS)]
        self.prompts = [[*self.alone.start_ids, *self.some(10 + row, COLUMNS)] for row in range(ROWS)]
        self.prompts[3][:SHARED], self.sources[3] = self.prompts[1][:SHARED], self.sources[1]
        self.truths = [self.truth(row, COLUMNS) for row in range(ROWS)]
        self.spread = torch.cat(self.truths).float().std().item()
        self.noise = max(self.changed(row, 4 + 3 * row) for row in range(ROWS))

    def changed(self, row: int, count: int) -> float:
        return self.difference(self.truth(row, count), self.truths[row][:count])

    def some(self, start: int, count: int) -> list[int]:
        """Token ids, different ones for each start, some of them repeated."""
        return [self.ids[(start * 31 + i * i * 7) % len(self.ids)] for i in range(count)]

    def truth(self, row: int, count: int) -> torch.Tensor:
        prompt = self.prompts[row][:count]
        return self.alone.forward(
            Batch(
                ids=prompt,
                starts=(0, count),
                cached=(0,),
                rows=(0,),
                want=range(count),
                moves=(Shape(1, COLUMNS),),
                sources={0: self.sources[row]} if self.alone.encodes else {},
            )
        )

    def error(self, runner: Runner) -> float:
        """Have runner compute the prompts: the largest error of a logit, nan if one is not a number."""
        seats, held = list(range(ROWS)), [0] * ROWS
        errors = []
        for moves, takes in PAGED if runner.paged else RESUMED if runner.resumes else WHOLE:
            for move in moves:
                if isinstance(move, Swap):
                    seats[move.a], seats[move.b] = seats[move.b], seats[move.a]
                elif isinstance(move, Copy):
                    held[seats[move.target]] = move.columns
            spans = {row: (seats[row], held[seats[row]], held[seats[row]] + count) for row, count in takes}
            logits = runner.forward(self.batch(moves, spans, runner.step if runner.paged else 0))
            truth = torch.cat([self.truths[i][start:end] for i, start, end in spans.values()])
            errors.append(self.difference(logits, truth))
            for i, _, end in spans.values():
                held[i] = end
        return float(torch.tensor(errors).max())

    def remembers(self) -> float:
        """By how much the model's own cache changes a logit of the last token; 0 if it keeps none."""
        prompt = torch.tensor([self.prompts[0]], device=self.model.device)
        before, last = (self.alone.inputs(ids, self.sources[0]) for ids in (prompt[:, :-1], prompt[:, -1:]))
        with torch.inference_mode():
            cache = self.model(**before).get("past_key_values")
            if cache is None:
                return 0.0
            try:
                logits = self.model(**last, past_key_values=cache).logits[0, -1:]
            except RuntimeError:  # it wants the tokens that the cache holds as well
                return float("inf")
        return self.difference(logits, self.truths[0][-1:])

    def batch(self, moves: tuple[Move, ...], spans: dict[int, tuple[int, int, int]], page: int) -> Batch:
        """The step in which each row takes a span (prompt, start, end), in pages of so many tokens if there
        are pages; all logits wanted."""
        counts = [end - start for _, start, end in spans.values()]
        sources = {row: self.sources[i] for row, (i, start, _) in spans.items() if not start}
        return Batch(
            ids=[token for i, start, end in spans.values() for token in self.prompts[i][start:end]],
            starts=list(accumulate(counts, initial=0)),
            cached=[start for _, start, _ in spans.values()],
            rows=list(spans),
            want=range(sum(counts)),
            moves=moves,
            sources=sources if self.alone.encodes else {},
            tables=[scattered(row, page) for row in spans] if page else (),
        )

    def difference(self, logits: torch.Tensor, truth: torch.Tensor) -> float:
        return ((logits.float() - truth.float()).abs().max() / self.spread).item()


def pages_of(page: int) -> int:
    """Pages of so many tokens that a trial takes."""
    return ROWS * -(-COLUMNS // page)


def scattered(row: int, page: int) -> list[int]:
    """A row's pages, with those of other rows in between."""
    return [row + ROWS * place for place in reversed(range(pages_of(page) // ROWS))]


def ordinary_ids(model: PreTrainedModel) -> list[int]:
    """Up to 1,000 token ids from the middle of the vocabulary, none of which the settings call special."""
    settings = {**model.config.to_dict(), **model.config.get_text_config().to_dict()}
    named = [value for name, value in settings.items() if "token_i" in name]  # …_token_id, _ids, _index
    special = {i for value in named for i in (value if isinstance(value, list) else [value])}
    size = model.config.get_text_config().vocab_size
    return [i for i in range(size // 4, size) if i not in special][:1000]
