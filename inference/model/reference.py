"""Compares a runner with the model's plain forward pass, over every kind of step that an engine schedules.

Knows the Runner interface and token ids; not which runners exist.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, CacheOp, Copy, Resize, Runner, Swap, make_batch
from inference.model.remembered_trials import RememberedChoices, RememberedErrors
from inference.model.uncached.runner import UncachedRunner

RowTokens = tuple[tuple[int, int], ...]  # (row, number of tokens) of each row of a step
Steps = tuple[tuple[tuple[CacheOp, ...], RowTokens], ...]

ROWS, COLUMNS = 4, 16
SHARED = 6  # tokens that the last prompt shares with the second

# Batched prompts, some in chunks; rows that join late, pause, swap, or begin with a copied prefix.
CHUNKED_STEPS: Steps = (
    ((Resize(3, 8),), ((0, 3), (1, 5))),
    ((Resize(ROWS, COLUMNS),), ((0, 1), (1, 4), (2, 6))),
    ((), ((0, 1), (2, 3))),
    ((Copy(1, 3, SHARED),), ((0, 1), (1, 3), (3, 1))),
    ((Swap(0, 3, 8),), ((0, 1), (1, 1), (2, 1), (3, 1))),
    ((), ((0, 3), (1, 1), (2, 2), (3, 2))),
)
# The same for paged memory, which needs no copies or swaps.
PAGED_STEPS: Steps = tuple(
    ((), row_tokens)
    for row_tokens in (
        ((0, 3), (1, 5)),
        ((0, 1), (1, 4), (2, 6)),
        ((0, 1), (2, 3), (3, 6)),
        ((0, 1), (1, 3), (3, 1)),
        ((0, 1), (1, 1), (2, 1), (3, 1)),
        ((0, 3), (1, 1), (2, 2), (3, 2)),
    )
)
# Whole prompts, then one token at a time.
UNCHUNKED_STEPS: Steps = (
    ((Resize(2, 8),), ((0, 3),)),
    ((Resize(ROWS, COLUMNS),), ((0, 1), (1, 7))),
    ((), ((0, 1), (1, 1), (2, 5))),
    ((Swap(0, 2, 8),), ((0, 1), (2, 1), (3, 4))),
    ((), ((0, 1), (1, 1), (2, 1), (3, 1))),
    ((), ((0, 1), (1, 1), (2, 1))),
)


class Reference:
    """Prompts for a model, and the model's own logits for them.

    logits          (T, V) for each prompt, from the model's forward pass over the prompt alone
    std             their standard deviation, the unit of every error
    rounding_noise  largest change of a logit when later tokens are computed too: the effect of rounding in
                    another order; a larger value shows a model that attends to later tokens
    errors          of runners, as earlier loads of the same model measured them
    choices         of runners, as earlier loads of the same model timed them
    """

    def __init__(
        self,
        model: PreTrainedModel,
        logits: Sequence[torch.Tensor] = (),
        rounding_noise: float | None = None,
    ) -> None:
        """Compute the logits of `model`, unless an earlier Reference of it has given them.

        logits, rounding_noise: those of that Reference.
        """
        self.model = model
        self.errors, self.choices = RememberedErrors(), RememberedChoices()
        self.ids = ordinary_token_ids(model)
        self.runner = UncachedRunner(model, max_sequences=1, context=COLUMNS)
        self.encoder_inputs = [self.sample_ids(row, 3 + 2 * row) for row in range(ROWS)]
        self.prompts = [[*self.runner.start_ids, *self.sample_ids(10 + row, COLUMNS)] for row in range(ROWS)]
        self.prompts[3][:SHARED], self.encoder_inputs[3] = self.prompts[1][:SHARED], self.encoder_inputs[1]
        self.logits = [*logits] or [self.compute_logits(row, COLUMNS) for row in range(ROWS)]
        self.std = torch.cat(self.logits).float().std().item()
        self.rounding_noise = (
            max(self.recompute_error(row, 4 + 3 * row) for row in range(ROWS))
            if rounding_noise is None
            else rounding_noise
        )

    def recompute_error(self, row: int, count: int) -> float:
        return self.difference(self.compute_logits(row, count), self.logits[row][:count])

    def sample_ids(self, start: int, count: int) -> list[int]:
        """Token ids that depend on `start`, some of them repeated."""
        return [self.ids[(start * 31 + i * i * 7) % len(self.ids)] for i in range(count)]

    def compute_logits(self, row: int, count: int) -> torch.Tensor:  # (count, V) of the plain forward pass
        span = {0: (row, 0, count)}
        return self.runner.forward(self.step_batch((Resize(1, COLUMNS),), span, COLUMNS, paged=False))

    def error_of(self, runner: Runner, num_steps: int | None = None) -> float:
        """Run the prompts on `runner`; returns the largest error of a logit, nan if one is not a number.

        num_steps: compute only the first steps.
        """
        prompt_of_row, num_computed = list(range(ROWS)), [0] * ROWS
        paged, page_size = runner.capabilities.paged, runner.page_size
        chunked_steps = PAGED_STEPS if paged else CHUNKED_STEPS
        errors = []
        steps = chunked_steps if runner.capabilities.chunked_prefill else UNCHUNKED_STEPS
        for cache_ops, row_tokens in steps[:num_steps]:
            for op in cache_ops:
                if isinstance(op, Resize):
                    page_size = op.columns
                elif isinstance(op, Swap):
                    prompt_of_row[op.a], prompt_of_row[op.b] = prompt_of_row[op.b], prompt_of_row[op.a]
                elif isinstance(op, Copy):
                    num_computed[prompt_of_row[op.target]] = op.columns
            spans = {
                row: (
                    prompt_of_row[row],
                    num_computed[prompt_of_row[row]],
                    num_computed[prompt_of_row[row]] + count,
                )
                for row, count in row_tokens
            }
            logits = runner.forward(self.step_batch(cache_ops, spans, page_size, paged))
            expected = torch.cat([self.logits[i][start:end] for i, start, end in spans.values()])
            errors.append(self.difference(logits, expected))
            for i, _, end in spans.values():
                num_computed[i] = end
        return float(torch.tensor(errors).max())

    def cache_error(self) -> float:
        """Largest change of a logit of the last token by the model's own cache; 0 if it has none."""
        prompt = torch.tensor([self.prompts[0]], device=self.model.device)
        before, last = (
            self.runner.model_inputs(ids, self.encoder_inputs[0]) for ids in (prompt[:, :-1], prompt[:, -1:])
        )
        with torch.inference_mode():
            cache = self.model(**before).get("past_key_values")
            if cache is None:
                return 0.0
            try:
                logits = self.model(**last, past_key_values=cache).logits[0, -1:]
            except RuntimeError:  # the model needs the cached tokens as input too
                return float("inf")
        return self.difference(logits, self.logits[0][-1:])

    def step_batch(
        self,
        cache_ops: tuple[CacheOp, ...],
        spans: dict[int, tuple[int, int, int]],
        page_size: int,
        paged: bool,
    ) -> Batch:
        """Build the step in which each row computes a span (prompt, start, end); every logit is returned."""
        counts = [end - start for _, start, end in spans.values()]
        encoder_inputs = {row: self.encoder_inputs[i] for row, (i, start, _) in spans.items() if not start}
        return make_batch(
            token_ids=[token for i, start, end in spans.values() for token in self.prompts[i][start:end]],
            query_start_loc=accumulate(counts, initial=0),
            num_computed_tokens=[start for _, start, _ in spans.values()],
            rows=spans,
            logits_indices=range(sum(counts)),
            cache_ops=cache_ops,
            encoder_inputs=encoder_inputs if self.runner.capabilities.encoder_decoder else {},
            page_table=[scattered_pages(row, page_size) for row in spans] if paged else (),
            page_size=page_size,
        )

    def difference(self, logits: torch.Tensor, expected: torch.Tensor) -> float:  # largest, in units of std
        return ((logits.float() - expected.float()).abs().max() / self.std).item()


def num_pages(page_size: int) -> int:
    """Pages that Reference.error_of needs."""
    return ROWS * -(-COLUMNS // page_size)


def scattered_pages(row: int, page_size: int) -> list[int]:
    """A row's pages, interleaved with those of the other rows."""
    return [row + ROWS * place for place in reversed(range(num_pages(page_size) // ROWS))]


def ordinary_token_ids(model: PreTrainedModel) -> list[int]:
    """Up to 1,000 token ids from the middle of the vocabulary, without those the config names as special."""
    settings = {**model.config.to_dict(), **model.config.get_text_config().to_dict()}
    named = [value for name, value in settings.items() if "token_i" in name]  # …_token_id, _ids, _index
    special = {i for value in named for i in (value if isinstance(value, list) else [value])}
    size = model.config.get_text_config().vocab_size
    return [i for i in range(size // 4, size) if i not in special][:1000]
