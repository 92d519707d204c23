"""The paged runner: transformers' model over one row of tokens, prefill and decode mixed, without padding.

For models whose attention goes through transformers' registry and whose tokens interact nowhere else. Knows
a model's inputs; nothing of sequences or sampling.
"""

from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, RunnerCapabilities, UnsupportedModel, make_batch
from inference.model.cache_layers import has_only_kv_cache
from inference.model.forward_pass import pooling, select_logits
from inference.model.forward_pass.forward_context import set_forward_context
from inference.model.forward_pass.forward_signature import accepts_through_decoder, first_position
from inference.model.forward_pass.step_adapters import StepAdapters, batch_adapters
from inference.model.load.generation_config import vocab_size_of
from inference.model.paged.attention import PROBE, AttentionKernel, PagedAttention, PagedContext, ProbeContext
from inference.model.paged.attn_metadata import AttnMetadata, StepMetadata, build_metadata
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.sdpa import sdpa_kernel

NUM_PROBE_TOKENS = 4


class PagedRunner:
    """A Runner (see batch.py) over the pages of a KVPool.

    Raises UnsupportedModel for a model that it cannot run. select_runner.py verifies the logits.
    """

    start_ids: tuple[int, ...] = ()

    def __init__(
        self,
        model: PreTrainedModel,
        pool: KVPool,
        *,
        max_sequences: int,
        context: int,
        kernel: AttentionKernel = sdpa_kernel,
        overlap: bool = False,
        create_attention: Callable[[PreTrainedModel], PagedAttention] = PagedAttention,
    ) -> None:
        self.model, self.device = model, model.device
        can_pool = pooling.install(model)
        self.capabilities = RunnerCapabilities(
            chunked_prefill=True, paged=True, overlap=overlap, pooling=can_pool
        )
        self.hidden_sums = torch.empty(0)
        self.max_sequences, self.context = max_sequences, context
        self.pool, self.page_size, self.kv_capacity = pool, pool.page_size, pool.capacity
        self.window_groups = pool.window_groups
        self.kernel, self.vocab = kernel, vocab_size_of(model)
        self.attention, self.first_position = create_attention(model), first_position(model)
        check_supported(model)
        select_logits.install(model)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        if batch.cache_ops:
            self.pool.apply(batch.cache_ops)
        spans, adapters = pooling.pooled_spans(batch), batch_adapters(batch)
        return self.compute(build_metadata(batch, self.page_size, self.device), spans, adapters)

    def compute(
        self,
        metadata: StepMetadata,
        pooled_spans: Sequence[pooling.Span] = (),
        adapters: StepAdapters | None = None,
    ) -> torch.Tensor:
        """Run the model: logits (W, V). Stores the sums of the spans."""
        tokens = metadata[0]
        context = PagedContext(
            tokens.logits_indices,
            metadata,
            self.pool,
            self.kernel,
            pooled_spans=pooled_spans,
            adapters=adapters,
        )
        with self.attention.installed(), set_forward_context(context):
            logits = self.model(
                input_ids=tokens.token_ids, position_ids=self.position_ids(tokens), use_cache=False
            ).logits
        if pooled_spans:
            self.hidden_sums = torch.stack([*context.hidden_sums])
        return select_logits.select_logits(logits, context)

    def position_ids(self, tokens: AttnMetadata) -> torch.Tensor:
        return tokens.positions + self.first_position if self.first_position else tokens.positions

    @torch.inference_mode()
    def probe(self) -> None:
        """Compute a few tokens in the first page: allocates the pool and checks each layer's window.

        Raises UnsupportedModel if a layer's mask differs from the sliding window that it passes to attention:
        a mask may express more than a window, such as chunks.
        """
        T = NUM_PROBE_TOKENS
        batch = make_batch(
            token_ids=range(T),
            query_start_loc=(0, T),
            num_computed_tokens=(0,),
            rows=(0,),
            logits_indices=range(T),
            page_table=((0,),),
            page_size=self.page_size,
            num_windows=len(self.window_groups),
        )
        metadata = build_metadata(batch, self.page_size, self.device)
        context = ProbeContext(None, metadata, self.pool, self.kernel)
        with self.attention.installed(PROBE), set_forward_context(context):
            token_ids, positions = metadata[0].token_ids, self.position_ids(metadata[0])
            mask = torch.ones_like(token_ids)
            self.model(input_ids=token_ids, position_ids=positions, attention_mask=mask, use_cache=False)
        if not self.pool.layers:
            raise UnsupportedModel("attention does not go through transformers' registry")


def check_supported(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel for a model with state other than keys and values, or without position ids."""
    if model.config.is_encoder_decoder:
        raise UnsupportedModel("is an encoder-decoder model")
    if not has_only_kv_cache(model.config):
        raise UnsupportedModel("has state other than keys and values")
    if not accepts_through_decoder(model, "position_ids"):
        raise UnsupportedModel("accepts no position ids")
