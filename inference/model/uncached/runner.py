"""The uncached runner: recomputes the whole prefix of each row in every step, one row at a time.

For models whose cache no other runner supports: slow, and correct for every model. Knows a model's inputs;
nothing of its layers.
"""

from itertools import pairwise
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, CacheOp, Clear, Copy, Pooling, Resize, RunnerCapabilities, Swap
from inference.model.forward_pass.forward_context import ForwardContext, set_forward_context
from inference.model.forward_pass.forward_signature import accepts
from inference.model.forward_pass.pooling import get_submodel, hidden_states
from inference.model.forward_pass.step_adapters import uniform_adapters
from inference.model.kv_cost import WindowGroup
from inference.model.load.generation_config import decoder_start_ids, vocab_size_of


class UncachedRunner:
    """A Runner (see batch.py) that stores only token ids.

    is_causal: logits depend on no later token. If False, and for models that append a mask token to generate
    (XLNet, XLM), each token whose logits are returned is computed with its prefix only.
    """

    page_size = 64
    window_groups: tuple[WindowGroup, ...] = ()

    def __init__(
        self, model: PreTrainedModel, *, max_sequences: int, context: int, is_causal: bool = True
    ) -> None:
        self.model, self.appends_mask_token = model, appends_mask_token(model)
        self.is_causal, self.whole_prefix = is_causal, is_causal and not self.appends_mask_token
        self.max_sequences, self.context, self.kv_capacity = max_sequences, context, max_sequences * context
        encoder_decoder = bool(model.config.is_encoder_decoder)
        self.submodel = get_submodel(model)
        self.capabilities = RunnerCapabilities(
            chunked_prefill=True, encoder_decoder=encoder_decoder, pooling=self.submodel is not None
        )
        self.hidden_sums = torch.empty(0)
        self.start_ids = decoder_start_ids(model) if encoder_decoder else ()
        self.vocab = vocab_size_of(model)
        self.rows: list[list[int]] = []
        self.encoder_inputs: list[list[int]] = []
        self.no_cache_kwargs = {"use_cache": False} if accepts(model, "use_cache") else {}

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device."""
        for op in batch.cache_ops:
            self.rows = apply_cache_op(self.rows, op)
            self.encoder_inputs = apply_cache_op(self.encoder_inputs, op)
        for row, encoder_ids in batch.encoder_inputs.items():
            self.encoder_inputs[row] = list(encoder_ids)
        logits = [torch.empty(0, self.vocab, device=self.model.device, dtype=self.model.dtype)]
        adapter_ids = batch.adapter_ids or [0] * len(batch.rows)
        for row, adapter_id, num_computed, (start, end) in zip(
            batch.rows, adapter_ids, batch.num_computed_tokens, pairwise(batch.query_start_loc), strict=True
        ):
            self.rows[row][num_computed:] = batch.token_ids[start:end]
            positions = [
                num_computed + token - start for token in batch.logits_indices if start <= token < end
            ]
            logits += [self.compute(row, positions, adapter_id)] if positions else []
        if batch.pooled_rows:
            counts = batch.num_computed_tokens
            sums = [
                self.hidden_sum(batch.rows[i], counts[i], pooling) for i, pooling in batch.pooled_rows.items()
            ]
            self.hidden_sums = torch.stack(sums)
        return torch.cat(logits)

    def hidden_sum(self, row: int, num_computed: int, pooling: Pooling) -> torch.Tensor:
        """What the row's last chunk adds to the sum of its hidden states, or the state of its last token.

        A chunk may also change the states of the tokens before it. An encoder's input is not chunked.
        """
        kwargs = {"use_cache": False} if accepts(self.submodel, "use_cache") else {}
        ids, device = self.encoder_inputs[row] or self.rows[row], self.model.device
        states = hidden_states(self.submodel, ids, device, **kwargs)
        if pooling == "last":
            return states[-1]
        if not num_computed:
            return states.sum(0)
        return states.sum(0) - hidden_states(self.submodel, ids[:num_computed], device, **kwargs).sum(0)

    def compute(self, row: int, positions: list[int], adapter_id: int) -> torch.Tensor:
        """The logits (W, V) of a row at W ascending positions."""
        if len(positions) > 1 and not self.whole_prefix:
            return torch.cat([self.compute(row, [position], adapter_id) for position in positions])
        ids = torch.tensor([self.rows[row][: positions[-1] + 1]], device=self.model.device)
        inputs = self.model_inputs(ids, self.encoder_inputs[row])
        context = ForwardContext(None, adapters=uniform_adapters(adapter_id, ids.numel(), ids.numel()))
        # The model may append a mask token, and return its logits alone: the last ones.
        indices = positions if self.whole_prefix else [-1]
        with set_forward_context(context):
            return self.model(**inputs, **self.no_cache_kwargs).logits[0, indices]

    def model_inputs(self, ids: torch.Tensor, encoder_ids: list[int]) -> dict[str, Any]:
        """Keyword arguments of the model for ids (1, T) and, in encoder-decoder models, the encoder's ids."""
        if self.appends_mask_token:
            return self.model.prepare_inputs_for_generation(ids)
        if not self.capabilities.encoder_decoder:
            return {"input_ids": ids}
        return {"input_ids": torch.tensor([encoder_ids], device=ids.device), "decoder_input_ids": ids}


def appends_mask_token(model: PreTrainedModel) -> bool:
    """Whether the model appends a mask token and predicts it, as XLNet and XLM do."""
    if accepts(model, "past_key_values") or accepts(model, "cache_params"):
        return False
    ids = torch.ones(1, 2, dtype=torch.int64, device=model.device)
    return model.prepare_inputs_for_generation(ids)["input_ids"].shape != ids.shape


def apply_cache_op(rows: list[list[int]], op: CacheOp) -> list[list[int]]:
    """Return the rows after a cache op; `rows` itself stays as it is."""
    rows = list(rows)
    if isinstance(op, Resize):
        return [*rows, *([] for _ in range(op.rows))][: op.rows]
    if isinstance(op, Swap):
        rows[op.a], rows[op.b] = rows[op.b], rows[op.a]
    elif isinstance(op, Copy):
        rows[op.target] = list(rows[op.source])
    elif isinstance(op, Clear):
        rows[op.row] = []
    return rows
