"""GPU memory while projections are merged, by a simulation of torch's allocator with expandable segments.

main.py switches them on: their pages of 2 MiB go back to the driver once all of a page is free. Without them
transformers loads all weights into one segment, which torch keeps whole: the holes that merging leaves were 9
to 24 % of the weights in a simulation, and an 8 B model did not start on a GPU of 24 GB.
"""

import os
from dataclasses import dataclass, field
from random import Random

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, Qwen3Config

import main
from checks.memory.overhead import DEFAULT_OVERHEAD
from inference.model.merge_projections import mergeable_layers
from tests.settings.parsed_settings import parsed_settings

PAGE, ALIGNMENT = 2 << 20, 512  # bytes: of a page, and of the blocks that torch allocates
GB = 10**9
KV_BYTES = GB  # must be left at least: 7,600 tokens of an 8 B model
MODELS = {
    "8 B on 24 GB": (
        LlamaConfig(
            vocab_size=128_256,
            hidden_size=4096,
            intermediate_size=14_336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
        ),
        22 * GB,  # what such a card has free
    ),
    "14 B on 40 GB": (
        Qwen3Config(
            vocab_size=151_936,
            hidden_size=5120,
            intermediate_size=17_408,
            num_hidden_layers=40,
            num_attention_heads=40,
            num_key_value_heads=8,
            head_dim=128,
        ),
        int(39.4 * GB),
    ),
}


@dataclass(slots=True)
class ExpandableSegment:
    """Blocks (start, size) in use, the end of the addresses, and the mapped pages, at most `most_pages`."""

    most_pages: int
    blocks: dict[int, int] = field(default_factory=dict)
    end: int = 0
    mapped: set[int] = field(default_factory=set)

    def allocate(self, num_bytes: int) -> int:
        """Take the smallest free range that fits, as torch does, or extend the segment; returns its start.

        Out of memory, torch unmaps free pages and tries again. Raises MemoryError if that does not help.
        """
        size = -(-num_bytes // ALIGNMENT) * ALIGNMENT
        fitting = [(free, at) for at, free in self.free_ranges() if free >= size]
        start = min(fitting)[1] if fitting else self.end
        self.end = max(self.end, start + size)
        self.blocks[start] = size
        self.mapped.update(range(start // PAGE, -(-(start + size) // PAGE)))
        if len(self.mapped) > self.most_pages:
            self.empty_cache()
        if len(self.mapped) > self.most_pages:
            raise MemoryError
        return start

    def free_ranges(self) -> list[tuple[int, int]]:
        ranges, at = [], 0
        for start in sorted(self.blocks):
            if start > at:
                ranges.append((at, start - at))
            at = start + self.blocks[start]
        return ranges

    def empty_cache(self) -> None:
        """Unmap the pages without a block."""
        self.mapped = {
            page
            for start, size in self.blocks.items()
            for page in range(start // PAGE, -(-(start + size) // PAGE))
        }


def meta_model(config: LlamaConfig | Qwen3Config) -> PreTrainedModel:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def merge_simulated(model: PreTrainedModel, order: list[nn.Parameter], num_bytes: int) -> ExpandableSegment:
    """Load the weights in this order into `num_bytes`, and merge the groups as merge_projections does."""
    segment = ExpandableSegment(num_bytes // PAGE)
    starts = {id(weight): segment.allocate(weight.nbytes) for weight in order}
    for members in mergeable_layers(model, "meta"):
        segment.allocate(sum(member.weight.nbytes for member in members))
        for member in members:
            del segment.blocks[starts[id(member.weight)]]
    segment.empty_cache()
    return segment


@pytest.mark.slow
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "in any order"])
@pytest.mark.parametrize("name", MODELS)
def test_merged_projections_leave_the_memory_that_is_predicted(name: str, is_shuffled: bool) -> None:
    config, free_bytes = MODELS[name]
    model = meta_model(config)
    weights = list(model.parameters())
    if is_shuffled:
        Random(1).shuffle(weights)
    num_bytes = sum(weight.nbytes for weight in weights)
    segment = merge_simulated(model, weights, free_bytes - DEFAULT_OVERHEAD.cuda)
    held_bytes = len(segment.mapped) * PAGE
    assert num_bytes <= held_bytes <= 1.03 * num_bytes
    assert held_bytes + DEFAULT_OVERHEAD.cuda + KV_BYTES < free_bytes


def test_memory_for_the_weights_and_no_group_runs_out() -> None:
    model = meta_model(LlamaConfig(num_hidden_layers=2))
    weights = list(model.parameters())
    with pytest.raises(MemoryError):
        merge_simulated(model, weights, sum(weight.nbytes for weight in weights) + PAGE)


@pytest.mark.parametrize("own", ["", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_a_start_switches_expandable_segments_on_unless_the_user_set_something_else(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {own: "max_split_size_mb:64"} if own else {}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(main.logs, "configure_logging", lambda *args, **options: None)
    main.prepare_environment(parsed_settings())
    expected = {"": "expandable_segments:True", "PYTORCH_ALLOC_CONF": None}
    assert environment.get("PYTORCH_CUDA_ALLOC_CONF") == expected.get(own, "max_split_size_mb:64")
