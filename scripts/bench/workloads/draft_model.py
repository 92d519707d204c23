"""Measures speculation with a draft model: its gain where the models agree, its cost where they never do."""

from functools import partial
from typing import Any

import torch

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.hearth import Hearth, pin_runner
from scripts.bench.load import Load, Request
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload

CLIENTS = (1, 4)
PROMPT_TOKENS, ANSWER_TOKENS = 32, 96
LAYER_SHARE = 8  # the draft model has one layer for as many of the model


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    random = torch.Generator().manual_seed(round_number)

    def make_request() -> Request:
        return Request(
            tuple(torch.randint(options.vocab_size, (PROMPT_TOKENS,), generator=random).tolist()),
            ANSWER_TOKENS,
        )

    return {f"{clients} clients": [make_request() for _ in range(clients)] for clients in CLIENTS}


def num_draft_layers(model: Any) -> int:
    return max(1, len(model.model.layers) // LAYER_SHARE)


def build_deep(model: str, dtype: str, device: str) -> Any:
    """The model whose layers beyond the draft model's add nothing: it costs all, and computes the same."""
    deep = build_model(model, dtype, device)
    for layer in deep.model.layers[num_draft_layers(deep) :]:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    return deep


def build_first_layers(model: str, dtype: str, device: str) -> Any:
    """The draft model that agrees: the first layers, the embeddings and the head."""
    draft = build_model(model, dtype, device)
    draft.config.num_hidden_layers = num_draft_layers(draft)
    del draft.model.layers[draft.config.num_hidden_layers :]
    if getattr(draft.config, "layer_types", None):
        draft.config.layer_types = draft.config.layer_types[: draft.config.num_hidden_layers]
    return draft


def build_stranger(model: str, dtype: str, device: str) -> Any:
    """The draft model that never agrees: the same shape with its tokens in another order."""
    draft = build_first_layers(model, dtype, device)
    draft.lm_head.weight = torch.nn.Parameter(draft.lm_head.weight.flip(0), requires_grad=False)
    return draft


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    options = pin_runner(options)
    deep = partial(Hearth, options, build=build_deep)
    drafted = partial(deep, speculate=options.speculate)
    starts = {
        "agreeing draft model": partial(drafted, build_draft=build_first_layers),
        "none": deep,
        "strange draft model": partial(drafted, build_draft=build_stranger),
    }
    return [EngineSpec(name, partial(SpawnedEngine, start)) for name, start in starts.items()]


DRAFT_MODEL = BenchWorkload(
    "draft_model",
    "our engine with a draft model of an eighth of the layers, and without, greedy. Agreeing: the other\n"
    "layers of the model add nothing, so each draft is right; this is the best case. Strange: no draft is\n"
    "right; this is the worst case.",
    "0.5b",
    make_loads,
    make_specs,
)
