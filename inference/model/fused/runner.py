"""The fused runner: computes a step of a Llama-like model in one call of the C library, with paged KV memory.

transformers' graph is not run; it is only the source of the LlamaSpec. Knows addresses and shapes; the
arithmetic is in inference/native/c.
"""

from array import array
from ctypes import POINTER, cast
from itertools import pairwise
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch
from inference.model.fused.llama_model import LayerSpec, LlamaSpec
from inference.model.paged.kv_pool import KVPool, LayerKV
from inference.model.paged.runner import PAGE_SIZE, PagedRunner
from inference.native.library import library
from inference.native.packed_matrix import NATIVE_DTYPES, address_of, alloc
from inference.native.structs import Layer, Model, Step

BYTES = array("q").itemsize


class StepArrays(NamedTuple):
    """The arrays that a Step points to, named as in step.h: R rows compute T tokens.

    ids              (T,)    token ids
    positions        (T,)    position of each token in its row
    slot_mapping     (T,)    slot of each token: page × page size + place in the page
    query_start_loc  (R+1,)  where each row's tokens begin
    seq_lens         (R,)    tokens of each row, including those of this step
    page_table       (R,)    index in `pages` of each row's first page
    pages            (…)     the pages of all rows, row after row
    logits_indices   (W,)    tokens whose logits are computed; ascending
    """

    ids: list[int]
    positions: list[int]
    slot_mapping: list[int]
    query_start_loc: list[int]
    seq_lens: list[int]
    page_table: list[int]
    pages: list[int]
    logits_indices: list[int]

    def to_step(self) -> tuple[Step, "array[int]"]:
        """The step, and the buffer that it points into, which must outlive it."""
        buffer, offsets = array("q"), []
        for each in self:
            offsets.append(len(buffer) * BYTES)
            buffer.fromlist(each)
        address, _ = buffer.buffer_info()
        pointers = {name: address + offset for name, offset in zip(self._fields, offsets, strict=True)}
        return Step(len(self.ids), len(self.seq_lens), len(self.logits_indices), **pointers), buffer


MAX_BUFFERED_ROWS = 64  # up to this many rows of logits, a step reuses the same buffer


class FusedRunner(PagedRunner):
    """A PagedRunner that computes steps in C from a LlamaSpec.

    The context must not exceed the positions of the spec's rotary tables. The GIL is released during a step.
    """

    def __init__(
        self, model: PreTrainedModel, spec: LlamaSpec, *, max_sequences: int, context: int, kv_capacity: int
    ) -> None:
        super().__init__(
            model, max_sequences=max_sequences, context=context, kv_capacity=kv_capacity, page_size=PAGE_SIZE
        )
        self.spec, self.native = spec, library()
        for layer_spec in spec.layers:  # a PagedRunner allocates its pool in the first step
            self.pool.layers[layer_spec.attention] = LayerKV(
                self.pool.zeros(spec.keys), self.pool.zeros(spec.keys)
            )
        self.native_model = native_model(spec, self.pool, torch.get_num_threads())
        self.workspace = alloc(0)
        self.logits = torch.empty(0, spec.lm_head.outputs, dtype=model.dtype)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, valid until the next call."""
        self.clear_pages(batch)
        return self.run(build_step_arrays(batch, self.page_size))

    def run(self, arrays: StepArrays) -> torch.Tensor:
        step, buffer = arrays.to_step()
        logits = self.logits_buffer(len(arrays.logits_indices))
        step.logits = logits.data_ptr()
        step.workspace = self.workspace_address(self.native.step_bytes(self.native_model, step))
        self.native.step_run(self.native_model, step)
        del buffer  # the step pointed into it until here
        return logits

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
    layers = [native_layer(layer_spec, pool.layers[layer_spec.attention]) for layer_spec in spec.layers]
    return Model(
        layers=len(layers),
        **spec.shape._asdict(),
        rotary=spec.rotary,
        activation=spec.activation,
        dtype=NATIVE_DTYPES[spec.keys.dtype],
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
        keys=kv.keys.data_ptr(),
        values=kv.values.data_ptr(),
    )


def build_step_arrays(batch: Batch, page_size: int) -> StepArrays:
    """The arrays of a batch whose page table has pages of `page_size` tokens."""
    positions: list[int] = []
    slot_mapping: list[int] = []
    seq_lens: list[int] = []
    page_table: list[int] = []
    pages: list[int] = []
    for (start, end), num_computed, table in zip(
        pairwise(batch.query_start_loc), batch.num_computed_tokens, batch.page_table, strict=True
    ):
        length = num_computed + end - start
        positions += range(num_computed, length)
        slot_mapping += [
            table[at // page_size] * page_size + at % page_size for at in range(num_computed, length)
        ]
        seq_lens.append(length)
        page_table.append(len(pages))
        pages += table
    return StepArrays(
        list(batch.token_ids),
        positions,
        slot_mapping,
        list(batch.query_start_loc),
        seq_lens,
        page_table,
        pages,
        list(batch.logits_indices),
    )
