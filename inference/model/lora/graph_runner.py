"""A paged runner that replays CUDA graphs for steps with adapters.

The layers are those of the model, not compiled ones, with low-rank outputs by slot. A graph is captured when
the first step of its size comes, and verified on a page that no sequence uses.
"""

import logging
from collections.abc import Sequence
from importlib import import_module

import torch
from transformers import PreTrainedModel

from inference.errors import named_error
from inference.model.batch import GroupTable, make_batch, slots_of
from inference.model.forward_pass.pooling import Span
from inference.model.forward_pass.step_adapters import StepAdapters, spans_of_logits
from inference.model.lora.modules import AdaptedModules
from inference.model.lora.slots import AdapterSlots, AddLowRank
from inference.model.lora.weights import AdapterWeights
from inference.model.paged.attn_metadata import StepMetadata, build_metadata
from inference.model.paged.captured_graph import (
    MAX_ROW_TOKENS,
    MIN_VOCAB,
    CapturedGraph,
    DecodeGraph,
    MixedGraph,
    Replay,
)
from inference.model.paged.cuda_graphs import GRAPH_KINDS, GraphKind, GraphRunner, decode_sizes, mixed_sizes
from inference.model.paged.runner import PagedRunner

log = logging.getLogger(__name__)

# Tokens of the largest mixed graph. For more, torch's products are faster than the kernel's, and keep the
# device busy for as long as the host takes to launch them.
MAX_MIXED_TOKENS = 1024


class AdapterGraphRunner(PagedRunner):
    """A PagedRunner over the pages of a GraphRunner, with graphs of its own for steps with adapters.

    sizes   tokens of the graphs of each kind, ascending
    graphs  by their kind and tokens; None: such steps are computed directly
    """

    def __init__(
        self,
        model: PreTrainedModel,
        base: GraphRunner,
        modules: AdaptedModules,
        add_low_rank: AddLowRank,
    ) -> None:
        super().__init__(
            model, base.pool, max_sequences=base.max_sequences, context=base.context, kernel=base.kernel
        )
        assert base.recording is not None
        self.recording, self.modules = base.recording, modules
        self.sizes: dict[GraphKind, list[int]] = {
            DecodeGraph: decode_sizes(min(base.max_sequences, base.pool.num_pages)),
            MixedGraph: mixed_sizes(min(self.recording.shared.mixed_count, MAX_MIXED_TOKENS)),
        }
        max_tokens = max(size for sizes in self.sizes.values() for size in sizes)
        self.slots = AdapterSlots(modules, add_low_rank, max_tokens)
        self.graphs: dict[tuple[GraphKind, int], CapturedGraph | None] = {}

    def add(self, adapter: AdapterWeights) -> None:
        """Replay steps with the adapter from now on, if it can have a slot."""
        if self.slots.add(adapter):
            self.graphs.clear()

    def compute(
        self,
        metadata: StepMetadata,
        pooled_spans: Sequence[Span] = (),
        adapters: StepAdapters | None = None,
    ) -> torch.Tensor:
        graph = None
        if adapters and not pooled_spans and self.slots.hold(adapters):
            graph = self.graph_for(metadata)
        if graph is None or adapters is None:
            return super().compute(metadata, pooled_spans, adapters)
        self.slots.fill(adapters)
        return graph.replay(metadata)

    def graph_for(self, metadata: StepMetadata) -> CapturedGraph | None:
        """The graph of the step, captured if it is the first of its size; None if there is none for it."""
        num_tokens = metadata[0].token_ids.shape[1]
        longest = max(span.end - span.start for span in metadata[0].spans)
        kinds = GRAPH_KINDS if longest <= MAX_ROW_TOKENS else (MixedGraph,)
        key = next(((kind, size) for kind in kinds for size in self.sizes[kind] if size >= num_tokens), None)
        if key is None:
            return None
        if key not in self.graphs:
            self.graphs[key] = self.try_capture(*key)
        graph = self.graphs[key]
        return graph if graph is not None and graph.supports(metadata) else None

    @torch.inference_mode()
    def try_capture(self, kind: GraphKind, size: int) -> CapturedGraph | None:
        """A verified graph of `size` tokens; None if it fails or is wrong."""
        name = f"{kind.__name__} of {size} tokens with adapters"
        try:
            graph = kind(self, size, self.capture, self.recording.shared)
            error = self.measure_error(graph)
            if not error <= self.recording.tolerance:
                raise ArithmeticError(f"error {error:.0e}")
        except Exception as raised:  # any model's code, and any error of the device
            log.info("no %s: %s", name, named_error(raised))
            return None
        log.info("captured a %s, error %.0e", name, error)
        return graph

    def capture(self, compute: Replay) -> Replay:
        def compute_with_slots() -> torch.Tensor:
            with self.slots.installed():
                return compute()

        return self.recording.capture(compute_with_slots)

    def measure_error(self, graph: CapturedGraph) -> float:
        """The largest difference to the step computed directly, in standard deviations of the logits.

        One row of several tokens, each of them with another adapter, on the padding pages, whose last slots
        are those of padding tokens. In a mixed graph the first token has no logits.
        """
        num_tokens = min(graph.count, MAX_ROW_TOKENS, self.page_size - 1, self.context)
        first = 0 if type(graph) is DecodeGraph else max(1, num_tokens - self.max_sequences)
        logits_indices = range(first, num_tokens)
        numbers = sorted(self.slots.adapters)
        spans = [(numbers[token % len(numbers)], token, token + 1) for token in range(num_tokens)]
        adapters = StepAdapters(
            num_tokens, len(logits_indices), spans, spans_of_logits(spans, logits_indices)
        )
        metadata = self.padding_page_step(num_tokens, logits_indices)
        self.slots.fill(adapters)
        replayed = graph.replay(metadata).float()
        with self.modules.installed(self.slots.adapters.values()):
            computed = super().compute(metadata, (), adapters).float()
        return float((replayed - computed).abs().max() / computed.std())

    def padding_page_step(self, num_tokens: int, logits_indices: Sequence[int]) -> StepMetadata:
        """A row of so many tokens in the padding page of each cache group."""
        page, *window_pages = map(self.pool.num_pages_of, self.pool.groups)
        token_ids = [7 * token % MIN_VOCAB for token in range(num_tokens)]
        starts = (0, num_tokens)
        batch = make_batch(
            token_ids, starts, (0,), (0,), logits_indices, page_table=((page,),), page_size=self.page_size
        )
        for window_page in window_pages:
            slots = slots_of((window_page,), self.page_size, *starts)
            batch.window_tables.append(GroupTable(((window_page,),), slots))
        return build_metadata(batch, self.page_size, self.device)


def import_low_rank_kernel(device: torch.device) -> AddLowRank | None:
    """The kernel for the device; None if there is none."""
    if device.type != "cuda":
        return None
    try:
        kernel: AddLowRank = import_module("inference.model.lora.triton_low_rank").add_low_rank
    except ImportError:
        return None
    return kernel
