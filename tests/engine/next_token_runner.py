"""A fake runner that costs nearly nothing: the logits of a token depend on that token alone."""

from dataclasses import dataclass, field

import torch

from inference.model.batch import Batch, RunnerCapabilities
from inference.model.kv_cost import WindowGroup

PAGE_SIZE = 16
CONTEXT = 1024


@dataclass
class NextTokenRunner:
    """Paged, with memory for max_sequences full sequences."""

    max_sequences: int
    overlap: bool
    context: int = CONTEXT
    page_size: int = PAGE_SIZE
    window_groups: tuple[WindowGroup, ...] = ()
    vocab: int = 200
    start_ids: tuple[int, ...] = ()
    capabilities: RunnerCapabilities = field(init=False)
    kv_capacity: int = field(init=False)
    logits: torch.Tensor = field(init=False)  # (V, V)

    def __post_init__(self) -> None:
        self.capabilities = RunnerCapabilities(chunked_prefill=True, paged=True, overlap=self.overlap)
        self.kv_capacity = self.max_sequences * self.context
        self.logits = torch.randn(self.vocab, self.vocab, generator=torch.Generator().manual_seed(3))

    def forward(self, batch: Batch) -> torch.Tensor:
        ids = torch.tensor(batch.token_ids)
        pending = batch.pending_tokens
        if pending is not None:
            ids[pending.token_indices] = pending.sampled_ids[pending.sample_indices].clamp(min=0)
        return self.logits[ids[list(batch.logits_indices)]]
