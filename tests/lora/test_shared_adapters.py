"""Adapters of a model that two ranks share answer as peft does, whatever their features."""

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from inference.model import process_group
from inference.model.load.loader import config_of, model_of
from inference.model.parallel_layers import use_plain_collectives
from tests.families import tiny
from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import peft_answers, save_adapter
from tests.shared_model import RANKS

TIED = {"tie_word_embeddings": True}
ATTENTION = ["q_proj", "v_proj"]
FEATURES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pairs": ("llama", {}, {"target_modules": ["q_proj", "o_proj", "up_proj", "down_proj", "lm_head"]}),
    "embedding": ("llama", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "tied output layer": ("llama", TIED, {"target_modules": ["q_proj", "lm_head"]}),
    "scaled embedding": ("gemma3_text", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "biases": ("phi", {}, {"target_modules": ["q_proj", "dense"], "bias": "all"}),
    "biases of B": ("phi", {}, {"lora_bias": True, "bias": "lora_only"}),
    "DoRA with biases": ("phi", {}, {"use_dora": True, "bias": "lora_only"}),
    "DoRA of gathered layers": ("phi3", {}, {"use_dora": True}),
    "output layer and norm to save": (
        "phi",
        {},
        {"target_modules": ATTENTION, "modules_to_save": ["lm_head", "input_layernorm"]},
    ),
    "embedding to save": ("llama", TIED, {"target_modules": ATTENTION, "modules_to_save": ["embed_tokens"]}),
    "layers to save": (
        "phi",
        {},
        {"target_modules": ["q_proj"], "modules_to_save": ["k_proj", "dense", "fc2"]},
    ),
    "gathered layers to save": (
        "phi3",
        {},
        {"target_modules": ["o_proj"], "modules_to_save": ["qkv_proj", "down_proj"]},
    ),
    "tied trainable tokens": (
        "llama",
        TIED,
        {"target_modules": ATTENTION, "trainable_token_indices": [5, 30]},
    ),
    "experts and routers": ("mixtral", {}, {}),
    "a router to save": ("mixtral", {}, {"target_modules": ATTENTION, "modules_to_save": ["gate"]}),
}


def answers_of(folder: Path, adapter: Path) -> list[list[int]]:
    """The answers of the base, then those of the adapter, from this rank's part of the model."""
    model = model_of(folder, config_of(folder, False), "float32", "cpu", False)
    use_plain_collectives(model)
    served = AdaptedEngine(model, ("paged", "contiguous"), timed=False)
    served.load(adapter, 1)
    sinks = [served.submit(prompt, number) for number in range(2) for prompt in prompts()]
    served.run()
    return [sink.ids for sink in sinks]


def run_rank(rank: int, port: int, folders: Sequence[tuple[Path, Path]], pipe: Connection) -> None:
    """Runs as a rank of each pair of a model and an adapter in turn, and sends the answers, or the error."""
    store = process_group.connect_store(port, RANKS)
    process_group.join_process_group(store, rank, RANKS, "cpu")
    for folder, adapter in folders:
        try:
            pipe.send(answers_of(folder, adapter))
        except Exception as error:
            pipe.send(f"rank {rank}: {error!r}")
    process_group.leave_process_group()
    os._exit(0)


@pytest.mark.slow
def test_two_ranks_answer_as_peft(tmp_path: Path) -> None:
    folders = [(tmp_path / name / "model", tmp_path / name / "adapter") for name in FEATURES]
    for (folder, adapter), (family, settings, config) in zip(folders, FEATURES.values(), strict=True):
        tiny(family, **settings).save_pretrained(folder)
        save_adapter(adapter, family, 1, settings, **config)
    context, store = multiprocessing.get_context("spawn"), process_group.create_store(RANKS)
    pipes = [context.Pipe() for _ in range(RANKS)]
    processes = [
        context.Process(target=run_rank, args=(rank, store.port, folders, pipe), daemon=True)
        for rank, (_, pipe) in enumerate(pipes)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    for (_, adapter), (name, (family, settings, _)) in zip(folders, FEATURES.items(), strict=True):
        expected = peft_answers(adapter, family, prompts(), settings)
        for ours, _ in pipes:
            token_ids = ours.recv()
            assert token_ids[len(expected) :] == expected, (name, token_ids)
            assert token_ids[: len(expected)] != expected, f"{name}: the adapter changes the answers"
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
