"""The fused runner: computes a step of a Llama-like model in one call of the C library, with paged KV memory.

transformers' graph is not run; it is only the source of the LlamaSpec. Knows addresses and shapes; the
arithmetic is in inference/native/c.
"""

from array import array
from bisect import bisect_left
from ctypes import POINTER, Array, addressof, cast
from itertools import accumulate, chain, pairwise

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, RunnerCapabilities
from inference.model.forward_pass.pooling import pooled_spans, sum_rows
from inference.model.fused.llama_model import LayerSpec, LlamaSpec
from inference.model.fused.native_adapter import NativeAdapter, delta_places, native_spans
from inference.model.load.generation_config import vocab_size_of
from inference.model.paged.kv_pool import INT8, KVPool, LayerKV
from inference.native.library import library
from inference.native.packed_matrix import NATIVE_DTYPES, address_of, alloc
from inference.native.structs import AdapterSpan, Layer, Model, NativeDtype, Step

BYTES = array("q").itemsize
MAX_BUFFERED_ROWS = 64  # up to this many rows of logits, a step reuses the same buffer


class FusedRunner:
    """A Runner (see batch.py) over the pages of a KVPool that computes steps in C from a LlamaSpec.

    The context must not exceed the positions of the spec's rotary tables. The GIL is released during a step.

    delta_places  the matrices that each module computes
    adapters      those that the steps may name, by number
    """

    start_ids: tuple[int, ...] = ()

    def __init__(
        self, model: PreTrainedModel, spec: LlamaSpec, pool: KVPool, *, max_sequences: int, context: int
    ) -> None:
        self.capabilities = RunnerCapabilities(chunked_prefill=True, paged=True, pooling=True)
        self.hidden_sums = torch.empty(0)
        self.max_sequences, self.context = max_sequences, context
        self.pool, self.page_size, self.kv_capacity = pool, pool.page_size, pool.capacity
        self.window_groups = pool.window_groups
        self.model, self.spec, self.native = model, spec, library()
        self.vocab = vocab_size_of(model)
        # While nothing has hooked the modules yet, as transformers does once it returns hidden states.
        self.delta_places = delta_places(model, spec.shape)
        self.adapters: dict[int, NativeAdapter] = {}
        self.native_model = native_model(spec, pool, torch.get_num_threads())
        self.workspace = alloc(0)
        self.logits = torch.empty(0, spec.lm_head.outputs, dtype=model.dtype)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, valid until the next call."""
        if batch.cache_ops:
            self.pool.apply(batch.cache_ops)
        output_indices = output_tokens(batch) if batch.pooled_rows else batch.logits_indices
        step, buffer = native_step(batch, output_indices)
        logits = self.logits_buffer(len(batch.logits_indices))
        step.logits, spans = logits.data_ptr(), None
        if batch.pooled_rows:
            hidden = torch.empty(len(output_indices), self.spec.shape.hidden, dtype=torch.float32)
            step.hidden = hidden.data_ptr()
        if batch.adapter_ids:
            spans = self.adapter_spans(batch, step)
        step.workspace = self.workspace_address(self.native.step_bytes(self.native_model, step))
        self.native.step_run(self.native_model, step)
        del buffer, spans  # the step pointed into them until here
        if batch.pooled_rows:
            firsts = [(bisect_left(output_indices, start), end - start) for start, end in pooled_spans(batch)]
            self.hidden_sums = sum_rows(hidden, [(first, first + count) for first, count in firsts])
        return logits

    def adapter_spans(self, batch: Batch, step: Step) -> "Array[AdapterSpan]":
        """The spans of the step's adapters, which the step points into from now on."""
        rows = zip(batch.adapter_ids, pairwise(batch.query_start_loc), strict=True)
        spans = [(number, first, end) for number, (first, end) in rows if number]
        indices = batch.logits_indices
        logits_rows = [(bisect_left(indices, first), bisect_left(indices, end)) for _, first, end in spans]
        native = native_spans(self.adapters, spans, logits_rows)
        step.num_spans, step.spans = len(spans), addressof(native)
        step.max_rank = max(self.adapters[number].max_rank for number, _, _ in spans)
        return native

    def logits_buffer(self, count: int) -> torch.Tensor:
        """A tensor for logits (count, V): the reused buffer up to MAX_BUFFERED_ROWS, else a new one."""
        if count > MAX_BUFFERED_ROWS:
            return self.logits.new_empty(count, self.logits.shape[1])
        if count > len(self.logits):
            self.logits = self.logits.new_empty(count, self.logits.shape[1])
        return self.logits[:count]

    def workspace_address(self, size: int) -> int:
        """The address of a workspace of at least `size` bytes, reused by later steps."""
        if size > len(self.workspace):
            self.workspace = alloc(size)
        return self.workspace.data_ptr()


def native_model(spec: LlamaSpec, pool: KVPool, threads: int) -> Model:
    """The Model struct of step.h. It points into the spec and the pool, which must outlive it."""
    layers = [
        native_layer(
            layer_spec, pool.allocate(layer_spec.attention, spec.keys, spec.keys, layer_spec.window or None)
        )
        for layer_spec in spec.layers
    ]
    dtype = NATIVE_DTYPES[spec.keys.dtype]
    return Model(
        layers=len(layers),
        **spec.shape._asdict(),
        rotary=spec.rotary,
        activation=spec.activation,
        dtype=dtype,
        kv_dtype=NativeDtype.Q8_0 if pool.kv_dtype == INT8 else dtype,
        page=pool.page_size,
        threads=threads,
        epsilon=spec.epsilon,
        **spec.multipliers._asdict(),
        embedding=spec.embedding,
        lm_head=spec.lm_head,
        final_norm=spec.final_norm.data_ptr(),
        layer=cast((Layer * len(layers))(*layers), POINTER(Layer)),
    )


def native_layer(layer_spec: LayerSpec, kv: LayerKV) -> Layer:
    return Layer(
        **layer_spec.matrices,
        **{place: weight.data_ptr() for place, weight in layer_spec.norms.items()},
        cos=address_of(layer_spec.cos),
        sin=address_of(layer_spec.sin),
        window=layer_spec.window,
        group=kv.group,
        keys=kv.keys.data_ptr(),
        values=kv.values.data_ptr(),
    )


def output_tokens(batch: Batch) -> list[int]:
    """The tokens whose hidden states are needed, ascending: for logits, and all of the pooled rows."""
    tokens = set(batch.logits_indices)
    for start, end in pooled_spans(batch):
        tokens.update(range(start, end))
    return sorted(tokens)


def native_step(batch: Batch, output_indices: list[int]) -> tuple[Step, "array[int]"]:
    """The Step struct of step.h, and the buffer that it points into, which must outlive it."""
    slot_mapping, page_table = batch.slot_mapping, batch.page_table
    if batch.window_tables:  # those of all cache groups, one after the other
        slot_mapping = [
            *slot_mapping,
            *chain.from_iterable(each.slot_mapping for each in batch.window_tables),
        ]
        page_table = [*page_table, *chain.from_iterable(each.page_table for each in batch.window_tables)]
    arrays = {
        "ids": batch.token_ids,
        "positions": batch.positions,
        "slot_mapping": slot_mapping,
        "query_start_loc": batch.query_start_loc,
        "seq_lens": batch.seq_lens,
        "output_indices": output_indices,
        # The pages of all rows, row after row, and before them the index of each row's first page.
        "page_table": list(accumulate(map(len, page_table[:-1]), initial=0)),
        "pages": list(chain.from_iterable(page_table)),
    }
    if output_indices is not batch.logits_indices:
        logits_rows = {token: row for row, token in enumerate(batch.logits_indices)}
        arrays["logits_rows"] = [logits_rows.get(token, -1) for token in output_indices]
    buffer, offsets = array("q"), {}
    for name, values in arrays.items():
        offsets[name] = len(buffer) * BYTES
        buffer.fromlist(values)
    address, _ = buffer.buffer_info()
    step = Step(len(batch.token_ids), len(batch.rows), len(batch.logits_indices), len(output_indices))
    for name, offset in offsets.items():
        setattr(step, name, address + offset)
    return step, buffer
