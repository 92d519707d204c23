"""The contiguous runner for encoder-decoder models: the encoder reads the prompt, rows hold decoder tokens.

Each row's prompt is encoded alone at its first step; its cross-attention keys and values stay with the row.
Knows the lengths of encoder inputs; everything else is in runner.py.
"""

from dataclasses import replace
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache, EncoderDecoderCache, PreTrainedModel

from inference.model.batch import Batch, CacheOp, Clear, Copy, Resize, Swap
from inference.model.contiguous.cache import CrossKVLayer
from inference.model.contiguous.call import ForwardCall
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.forward_pass.forward_context import ForwardContext, set_forward_context
from inference.model.forward_pass.step_adapters import uniform_adapters
from inference.model.load.generation_config import decoder_start_ids


class EncoderDecoderRunner(ContiguousRunner):
    """A Runner (see batch.py) of an encoder-decoder model: Batch.encoder_inputs has the prompts of new rows.

    The context limits the decoder's tokens. New rows never share a call with rows in later steps.
    """

    encoder_decoder = True
    positions_name = "decoder_position_ids"

    def __init__(self, model: PreTrainedModel, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.start_ids = decoder_start_ids(model)
        self.cross_layers = [CrossKVLayer(self.memory) for _ in self.cache.layers]
        self.encoder_decoder_cache = EncoderDecoderCache(self.cache, Cache(layers=list(self.cross_layers)))
        self.encoder_lengths: list[int] = []
        self.encoder_states: dict[int, torch.Tensor] = {}

    def forward(self, batch: Batch) -> torch.Tensor:
        for op in batch.cache_ops:
            self.encoder_lengths = apply_cache_op(self.encoder_lengths, op)
        self.encode(batch)
        if batch.pooled_rows:
            self.hidden_sums = torch.stack(
                [
                    self.encoder_states[batch.rows[i]][-1 if pooling == "last" else 0 :].float().sum(0)
                    for i, pooling in batch.pooled_rows.items()
                ]
            )
            batch = replace(batch, pooled_rows={})  # the decoder's states are not summed
        return super().forward(batch)

    @torch.inference_mode()
    def encode(self, batch: Batch) -> None:
        """Encode each encoder input of the batch alone, and keep its output (K, d) until the first call."""
        encoder = self.model.get_encoder()
        adapter_of_row = dict(zip(batch.rows, batch.adapter_ids, strict=False))
        for row, ids in batch.encoder_inputs.items():
            encoder_ids = torch.tensor([ids], device=self.device)
            adapters = uniform_adapters(adapter_of_row.get(row, 0), len(ids), len(ids))
            with set_forward_context(ForwardContext(None, adapters=adapters)):
                output = encoder(input_ids=encoder_ids)
            self.encoder_states[row], self.output_type = output.last_hidden_state[0], type(output)
            self.encoder_lengths[row] = len(ids)

    def model_inputs(self, call: ForwardCall) -> dict[str, Any]:
        rows = range(call.first, call.first + call.num_rows)
        lengths = [self.encoder_lengths[row] for row in rows]
        widest = max(lengths)
        for layer in self.cross_layers:
            layer.select_rows(call, widest)
        self.encoder_decoder_cache.is_updated = dict.fromkeys(
            range(len(self.cross_layers)), not call.first_step
        )
        mask = torch.arange(widest)[None] < torch.tensor(lengths)[:, None]
        return {
            "decoder_input_ids": call.token_ids,
            "encoder_outputs": self.output_type(last_hidden_state=self.encoder_outputs(call, widest)),
            "attention_mask": mask.long().to(self.device) if min(lengths) < widest else None,
            "past_key_values": self.encoder_decoder_cache,
        }

    def encoder_outputs(self, call: ForwardCall, widest: int) -> torch.Tensor:
        """The encoder outputs of new rows, (R, K, d); later a placeholder: only its shape is read."""
        if call.first_step:
            rows = range(call.first, call.first + call.num_rows)
            outputs = pad_sequence([self.encoder_states.pop(row) for row in rows], batch_first=True)
            self.placeholder = outputs.new_zeros(1, 1, outputs.shape[2])
            return outputs
        return self.placeholder.expand(call.num_rows, widest, -1)


def apply_cache_op(lengths: list[int], op: CacheOp) -> list[int]:
    lengths = list(lengths)
    if isinstance(op, Resize):
        return (lengths + [0] * op.rows)[: op.rows]
    if isinstance(op, Swap):
        lengths[op.a], lengths[op.b] = lengths[op.b], lengths[op.a]
    elif isinstance(op, Copy):
        lengths[op.target] = lengths[op.source]
    elif isinstance(op, Clear):
        lengths[op.row] = 0
    return lengths
