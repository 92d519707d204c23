"""Pooling: the sums of hidden states from which embeddings are made.

The hidden states are those of the last layer after the final norm; for an encoder-decoder model those of its
encoder. They are summed in float32, so that the chunks of a text add up. Where only the last token of a text
counts, its hidden state is the sum. Knows nothing of text.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference.model.batch import Batch
from inference.model.forward_pass.forward_context import get_forward_context

Span = tuple[int, int]  # the first token, and the one behind the last


def get_submodel(model: PreTrainedModel) -> Any | None:
    """The submodel that returns the hidden states of its tokens; None if there is none."""
    submodel = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    return None if submodel is model else submodel


def embedding_sizes(model: PreTrainedModel) -> Sequence[int]:
    """The sizes that an embedding may have, ascending; the last one is the width of the hidden states.

    Smaller ones are those that the model was trained for (matryoshka), as vLLM reads them from config.json:
    a list, matryoshka_dimensions, or with is_matryoshka any size. Empty if there is no submodel, or if its
    width is not known.
    """
    submodel = get_submodel(model)
    if submodel is None:
        return ()
    # The layers of some models, such as OPT 350m, are wider than what they give to the head.
    head = None if model.config.is_encoder_decoder else model.get_output_embeddings()
    config = submodel.config.get_text_config()
    width = getattr(head, "in_features", None) or getattr(config, "hidden_size", None)
    if width is None:
        return ()
    declared = getattr(model.config, "matryoshka_dimensions", None)
    if isinstance(declared, list | tuple):
        return (*sorted({size for size in declared if type(size) is int and 0 < size < width}), width)
    return range(1, width + 1) if getattr(model.config, "is_matryoshka", False) is True else (width,)


def install(model: PreTrainedModel) -> bool:
    """Hook the submodel, once: it sums the spans of its ForwardContext. Returns whether there is one."""
    submodel = get_submodel(model)
    if submodel is None:
        return False
    # Some models, such as OPT, call the submodel's decoder directly; its output is the same.
    for module in (submodel, model.get_decoder()):
        if module is not model and not getattr(module, "sums_hidden_states", False):
            module.register_forward_hook(sum_spans)
            module.sums_hidden_states = True
    return True


def sum_spans(submodel: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: stores the sums of the ForwardContext's pooled spans."""
    context = get_forward_context()
    if context is not None and context.pooled_spans:
        states = output[0].flatten(0, -2)
        context.hidden_sums = [states[start:end].float().sum(0) for start, end in context.pooled_spans]


def sum_rows(states: Tensor, spans: Sequence[Span]) -> Tensor:
    """The sums (P, d) of the spans of `states` (N, d), on the CPU, by one operation for all of them."""
    rows = [len(spans)] * len(states)  # of what belongs to no span: a sum that is dropped
    for row, (start, end) in enumerate(spans):
        rows[start:end] = [row] * (end - start)
    sums = states.new_zeros(len(spans) + 1, states.shape[1])
    return sums.index_add_(0, torch.tensor(rows), states)[:-1]


def pooled_spans(batch: Batch) -> list[Span]:
    """The tokens of each of the batch's pooled rows whose hidden states are summed."""
    return [pooled_span(batch, row) for row in batch.pooled_rows]


def pooled_span(batch: Batch, row: int) -> Span:
    """The tokens of the row i whose hidden states are summed."""
    start, end = batch.query_start_loc[row], batch.query_start_loc[row + 1]
    return (end - 1, end) if batch.pooled_rows[row] == "last" else (start, end)


def hidden_states(submodel: Any, ids: Sequence[int], device: torch.device, **kwargs: Any) -> Tensor:
    """The hidden states (T, d) of ids in float32, which the submodel computes alone."""
    return submodel(input_ids=torch.tensor([ids], device=device), **kwargs)[0][0].float()
