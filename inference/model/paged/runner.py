"""The paged runner: transformers' model over one row of tokens, prefill and decode mixed, without padding.

For models whose attention goes through transformers' registry and whose tokens interact nowhere else. Knows
a model's inputs; nothing of sequences or sampling.
"""

from collections.abc import Callable

import torch
from transformers import PreTrainedModel

from inference.model import select_logits
from inference.model.batch import Batch, Clear, UnsupportedModel
from inference.model.cache_layers import has_only_kv_cache
from inference.model.forward_signature import accepts_through_decoder
from inference.model.load.generation_config import vocab_size_of
from inference.model.paged.attention import PROBE, AttentionKernel, PagedAttention
from inference.model.paged.attn_metadata import AttnMetadata, build_metadata, use_metadata
from inference.model.paged.kv_pool import KVPool, StoreKernel, store_by_index
from inference.model.paged.sdpa import sdpa_kernel

CreateAttention = Callable[[PreTrainedModel, KVPool, AttentionKernel], PagedAttention]

PAGE_SIZE = 16  # tokens of a page
NUM_PROBE_TOKENS = 4


class PagedRunner:
    """A Runner (see batch.py) with paged KV memory.

    Raises UnsupportedModel for a model that it cannot run. select_runner.py verifies the logits.
    """

    supports_chunked_prefill = True
    is_encoder_decoder = False
    paged = True
    start_ids: tuple[int, ...] = ()

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_sequences: int,
        context: int,
        kv_capacity: int,
        page_size: int = PAGE_SIZE,
        kernel: AttentionKernel = sdpa_kernel,
        async_capable: bool = False,
        create_attention: CreateAttention = PagedAttention,
        store: StoreKernel = store_by_index,
    ) -> None:
        self.model, self.device, self.async_capable = model, model.device, async_capable
        num_pages = max(kv_capacity // page_size, -(-context // page_size))
        self.max_sequences, self.context = max_sequences, context
        self.page_size, self.kv_capacity = page_size, num_pages * page_size
        self.vocab = vocab_size_of(model)
        self.pool = KVPool(num_pages, page_size, store)
        self.attention = create_attention(model, self.pool, kernel)
        check_supported(model)
        select_logits.install(model)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        self.clear_pages(batch)
        metadata = build_metadata(batch, self.page_size, self.device)
        with self.attention.installed():
            return self.compute(metadata)

    def clear_pages(self, batch: Batch) -> None:
        """Carry out the cache ops."""
        if batch.cache_ops:
            assert all(isinstance(op, Clear) for op in batch.cache_ops), "pages are never moved"
            self.pool.clear({op.row for op in batch.cache_ops if isinstance(op, Clear)})

    def compute(self, metadata: AttnMetadata) -> torch.Tensor:
        """Run the model: logits (W, V). The caller has installed PagedAttention."""
        with use_metadata(metadata), select_logits.use_selection(metadata):
            logits = self.model(
                input_ids=metadata.token_ids, position_ids=metadata.positions, use_cache=False
            ).logits
        return select_logits.select_logits(logits, metadata)

    @torch.inference_mode()
    def probe(self) -> None:
        """Compute a few tokens in the first page: allocates the pool and checks each layer's window.

        Raises UnsupportedModel if a layer's mask differs from the sliding window that it passes to attention:
        a mask may express more than a window, such as chunks.
        """
        ids = range(NUM_PROBE_TOKENS)
        metadata = build_metadata(
            Batch(ids, (0, NUM_PROBE_TOKENS), (0,), (0,), (NUM_PROBE_TOKENS - 1,), page_table=((0,),)),
            self.page_size,
            self.device,
        )
        with self.attention.installed(PROBE), use_metadata(metadata):
            mask = torch.ones_like(metadata.token_ids)
            self.model(
                input_ids=metadata.token_ids,
                position_ids=metadata.positions,
                attention_mask=mask,
                use_cache=False,
            )
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
