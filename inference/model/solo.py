"""The solo seat: each row's tokens are computed anew and alone, for models that keep no memory we can hold.

A row is its token ids. Slow, and right whatever a model is. Knows a model's inputs; nothing of its inside.
"""

from itertools import pairwise
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Clear, Copy, Move, Shape, Swap
from inference.model.inputs import accepts
from inference.model.start import start_ids, vocab


class SoloRunner:
    """A Runner (see batch.py) that remembers tokens alone.

    causal: the model's logits after a token depend on no later one. Where False, and for models that generate
    into a token they append (XLNet, XLM), each wanted token is computed with its prefix alone.
    """

    resumes = True
    paged = False
    overlaps = False
    step = 64

    def __init__(self, model: PreTrainedModel, *, max_rows: int, context: int, causal: bool = True) -> None:
        self.model, self.appends = model, appends(model)
        self.whole = causal and not self.appends
        self.max_rows, self.context, self.area = max_rows, context, max_rows * context
        self.encodes = bool(model.config.is_encoder_decoder)
        self.start_ids = start_ids(model) if self.encodes else ()
        self.vocab = vocab(model)
        self.rows: list[list[int]] = []
        self.sources: list[list[int]] = []
        self.uncached = {"use_cache": False} if accepts(model, "use_cache") else {}

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device."""
        for move in batch.moves:
            self.rows, self.sources = moved(self.rows, move), moved(self.sources, move)
        for row, source in batch.sources.items():
            self.sources[row] = list(source)
        logits = [torch.empty(0, self.vocab, device=self.model.device, dtype=self.model.dtype)]
        for i, (start, end) in enumerate(pairwise(batch.starts)):
            row, cached = batch.rows[i], batch.cached[i]
            self.rows[row][cached:] = batch.ids[start:end]
            wanted = [cached + token - start for token in batch.want if start <= token < end]
            logits += [self.compute(row, wanted)] if wanted else []
        return torch.cat(logits)

    def compute(self, row: int, wanted: list[int]) -> torch.Tensor:
        """The logits after the tokens of a row at the positions wanted, (W, V)."""
        ids = torch.tensor([self.rows[row][: wanted[-1] + 1]], device=self.model.device)
        source = self.sources[row]
        if not self.whole:
            return torch.cat([self.after(ids[:, : position + 1], source) for position in wanted])
        return self.model(**self.inputs(ids, source), **self.uncached).logits[0, wanted]

    def after(self, ids: torch.Tensor, source: list[int]) -> torch.Tensor:
        """The logits (1, V) after the last of ids (1, T)."""
        return self.model(**self.inputs(ids, source), **self.uncached).logits[:, -1]

    def inputs(self, ids: torch.Tensor, source: list[int]) -> dict[str, Any]:
        """What the model is given for ids (1, T) and, if it encodes, the source."""
        if self.appends:
            return self.model.prepare_inputs_for_generation(ids)
        if not self.encodes:
            return {"input_ids": ids}
        return {"input_ids": torch.tensor([source], device=ids.device), "decoder_input_ids": ids}


def appends(model: PreTrainedModel) -> bool:
    """Whether generation has the model fill in a token it appends, as some without a cache do."""
    if accepts(model, "past_key_values") or accepts(model, "cache_params"):
        return False
    ids = torch.ones(1, 2, dtype=torch.int64, device=model.device)
    return model.prepare_inputs_for_generation(ids)["input_ids"].shape != ids.shape


def moved(rows: list[list[int]], move: Move) -> list[list[int]]:
    """The rows after a move."""
    rows = list(rows)
    if isinstance(move, Shape):
        return [*rows, *([] for _ in range(move.rows))][: move.rows]
    if isinstance(move, Swap):
        rows[move.a], rows[move.b] = rows[move.b], rows[move.a]
    elif isinstance(move, Copy):
        rows[move.target] = list(rows[move.source])
    elif isinstance(move, Clear):
        rows[move.row] = []
    return rows
