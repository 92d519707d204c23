"""The contiguous runner: transformers' model over rows × columns of KV memory, padded to a common length.

`forward` applies the cache ops, runs the calls and selects the logits. Knows a model's inputs; nothing of
sequences or sampling.
"""

import inspect
from collections.abc import Container
from typing import Any

import torch
from transformers import Cache, PreTrainedModel

from inference.model.batch import Batch, RunnerCapabilities, UnsupportedModel
from inference.model.contiguous import attention, position_fixes
from inference.model.contiguous.cache import StateLayer, build_layers
from inference.model.contiguous.call import ForwardCall
from inference.model.contiguous.host_calls import ONE_ROW, plan_calls
from inference.model.contiguous.kv_memory import ContiguousMemory
from inference.model.forward_pass import pooling, select_logits
from inference.model.forward_pass.forward_context import set_forward_context
from inference.model.forward_pass.forward_signature import accepts_through_decoder
from inference.model.kv_cost import WindowGroup
from inference.model.load.generation_config import vocab_size_of

MAX_PADDING = 32  # padding tokens that cost less than another call of the model
COLUMN_STEP = 64  # columns by which the memory grows


class ContiguousRunner:
    """A Runner (see batch.py) for models that keep their state in a transformers Cache.

    batched: rows share a call; if False, each row has its own, for models that derive positions in ways that
    position_fixes.py does not cover. Raises UnsupportedModel for a model that it cannot run.
    select_runner.py verifies the logits.
    """

    encoder_decoder = False
    page_size = COLUMN_STEP
    window_groups: tuple[WindowGroup, ...] = ()
    positions_name = "position_ids"

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_sequences: int,
        context: int,
        kv_capacity: int,
        chunked_prefill: bool,
        batched: bool = True,
    ) -> None:
        self.model, self.device = model, model.device
        self.max_sequences, self.context, self.kv_capacity = max_sequences, context, kv_capacity
        self.capabilities = RunnerCapabilities(
            chunked_prefill, encoder_decoder=self.encoder_decoder, pooling=pooling.install(model)
        )
        self.hidden_sums = torch.empty(0)
        self.start_ids: tuple[int, ...] = ()
        self.vocab = vocab_size_of(model)
        self.memory = ContiguousMemory()
        cache_layers = build_layers(model.config, self.memory)
        self.cache = Cache(layers=cache_layers)
        self.states = [layer for layer in cache_layers if isinstance(layer, StateLayer)]
        if chunked_prefill and self.states:
            raise UnsupportedModel("has recurrent states")
        accepts = inspect.signature(model.forward).parameters
        self.cache_name = cache_name(accepts)
        self.accepts_positions = accepts_through_decoder(model, self.positions_name)
        self.batched = batched
        self.max_padding = (
            ONE_ROW if not batched else MAX_PADDING if chunked_prefill and not self.encoder_decoder else 0
        )
        install_hooks(model)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        for op in batch.cache_ops:
            self.memory.apply(op)
        calls, order = plan_calls(batch, self.max_padding, self.device)
        logits = [self.compute(call) for call in calls]
        if batch.pooled_rows:
            sums = {
                row: hidden_sum
                for call in calls
                for row, hidden_sum in zip(call.pooled_rows, call.hidden_sums, strict=True)
            }
            self.hidden_sums = torch.stack([sums[row] for row in batch.pooled_rows])
        if len(logits) == 1:
            return logits[0]
        all_logits = torch.cat(logits)
        return all_logits if order is None else all_logits.index_select(0, order.to(all_logits.device))

    def compute(self, call: ForwardCall) -> torch.Tensor:
        for layer in self.states:
            layer.select_rows(call)
        model_inputs = self.model_inputs(call)
        if self.accepts_positions:
            model_inputs[self.positions_name] = call.positions
        with set_forward_context(call):
            logits = self.model(**model_inputs, use_cache=True).logits
        return select_logits.select_logits(logits, call)

    def model_inputs(self, call: ForwardCall) -> dict[str, Any]:
        return {"input_ids": call.token_ids, self.cache_name: self.cache}


def install_hooks(model: PreTrainedModel) -> None:
    """Make the model read the current ForwardCall; outside of a call the model computes as before."""
    attention.install()
    position_fixes.fix_positions(model)
    select_logits.install(model)


def cache_name(inputs: Container[str]) -> str:
    for name in ("past_key_values", "cache_params"):
        if name in inputs:
            return name
    raise UnsupportedModel("accepts no cache")
