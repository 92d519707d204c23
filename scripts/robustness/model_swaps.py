"""Models that share the memory change places under load: how often, how long a request waits, what is lost.

    python -m scripts.robustness.model_swaps [--requests 1000] [--clients 16] [--swap-seconds 5]

Three copies of a model, two of them with adapters, are loaded on demand, and two fit. Each client sends one
request after the other, each to a model or an adapter drawn at random; some models are unloaded by request.
A model that leaves for another one sleeps, and is woken without a load. The least number of loads is that of
an oracle that serves the requests one at a time in the order of their arrival and knows all later ones: it
unloads the model that is needed last (Belady, 1966). A server may need fewer, because it groups requests that
wait.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.process_memory import ProcessPeak, planned_bytes, recording_peak
from scripts.robustness.server import JSON_TYPE, Server, serving

MODEL = "models/demo"
ADAPTERS: Mapping[str, Sequence[str]] = {"a": ("poet", "cook"), "b": ("judge",), "c": ()}
MODEL_OF = {name: model for model, adapters in ADAPTERS.items() for name in (model, *adapters)}
NUM_LOADED = 2
LOAD_WAIT_S = 600
REQUESTS_PER_UNLOAD = 200
KV_MEMORY_GB = 0.05
SETTINGS = {"RUNNER": "fused", "THREADS": 1, "KV_MEMORY_GB": KV_MEMORY_GB, "MAX_LORAS": 2, "MAX_LORA_RANK": 8}
QUESTION = {
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
    "max_tokens": 16,
}


class TimedText(NamedTuple):
    """The text of an answer, and the seconds until it was whole."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SwapResults:
    """received: of each request; None: there was no answer. texts: of each name, alone.

    num_sleeps  how often a model made room and kept its process
    """

    received: Sequence[TimedText | None]
    texts: Mapping[str, str]
    num_loads: int
    num_sleeps: int
    memory: ProcessPeak


def least_loads(names: Sequence[str], num_loaded: int) -> int:
    """The fewest loads that serve the requests in their order, with room for num_loaded models."""
    loaded: set[str] = set()
    num_loads = 0
    for position, name in enumerate(names):
        if name in loaded:
            continue
        num_loads += 1
        if len(loaded) == num_loaded:
            rest = names[position:]
            loaded.remove(max(loaded, key=lambda each: rest.index(each) if each in rest else len(rest)))
        loaded.add(name)
    return num_loads


def save_adapter(folder: Path, seed: int) -> None:
    """Save an adapter with random weights that change every answer."""
    torch.manual_seed(seed)
    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(MODEL), config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.6)
    adapted.save_pretrained(folder)


def model_entries(folder: Path) -> list[dict[str, Any]]:
    """The entries of MODELS. folder: for the adapters."""
    entries, seeds = [], count(1)
    for model, adapters in ADAPTERS.items():
        for adapter in adapters:
            save_adapter(folder / adapter, next(seeds))
        items = ",".join(f"{adapter}={folder / adapter}" for adapter in adapters)
        settings = SETTINGS | ({"LORA_ADAPTERS": items} if items else {})
        entries.append({"base_model": MODEL, "display_name": model, "settings": settings})
    return entries


def fetch_answer(server: Server, name: str) -> TimedText | None:
    """The answer and its seconds; None: there is none."""
    start, connection = time.monotonic(), server.connect(LOAD_WAIT_S)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(QUESTION | {"model": name}), JSON_TYPE)
        completion = json.loads(connection.getresponse().read())
        return TimedText(completion["choices"][0]["message"]["content"], time.monotonic() - start)
    except (OSError, HTTPException, ValueError, KeyError) as error:
        print(f"no answer of {name}: {type(error).__name__}", flush=True)
        return None
    finally:
        connection.close()


def run(names: Sequence[str], num_clients: int, swap_seconds: float) -> SwapResults:
    """Send requests to these models and adapters."""

    def fetch(number: int) -> TimedText | None:
        if number % REQUESTS_PER_UNLOAD == REQUESTS_PER_UNLOAD - 1:
            server.post("/models/unload", {"model": MODEL_OF[names[number]]})
            print(f"{number + 1} of {len(names)} requests", flush=True)
        return fetch_answer(server, names[number])

    with tempfile.TemporaryDirectory() as folder:
        flags = (
            f"--models={json.dumps(model_entries(Path(folder)))}",
            f"--max-loaded-models={NUM_LOADED}",
            f"--load-wait-seconds={LOAD_WAIT_S}",
            f"--model-swap-seconds={swap_seconds}",
        )
        planned = planned_bytes(flags)
        with serving(*flags) as server, ThreadPoolExecutor(num_clients) as clients:
            texts = {name: (fetch_answer(server, name) or TimedText("", 0.0)).text for name in MODEL_OF}
            loads_before, sleeps_before = count_loads(server), count_sleeps(server)
            with recording_peak(server.process.pid, planned) as memory:
                received = list(clients.map(fetch, range(len(names))))
            num_loads = count_loads(server) - loads_before
            num_sleeps = count_sleeps(server) - sleeps_before
            return SwapResults(received, texts, num_loads, num_sleeps, memory)


def count_loads(server: Server) -> int:
    return round(server.metric("hearth_model_loads_total"))


def count_sleeps(server: Server) -> int:
    return round(server.metric("hearth_model_sleeps_total"))


def figures_of(names: Sequence[str], results: SwapResults) -> list[JudgedFigure]:
    num_wrong = sum(
        each is None or each.text != results.texts[name]
        for name, each in zip(names, results.received, strict=True)
    )
    num_unloads = len(names) // REQUESTS_PER_UNLOAD
    least = least_loads([MODEL_OF[name] for name in names], NUM_LOADED) + num_unloads
    longest_s = max((each.seconds for each in results.received if each), default=0.0)
    memory, is_distinct = results.memory, len(set(results.texts.values()) - {""}) > len(ADAPTERS)
    return [
        JudgedFigure("answers lost or wrong", f"{num_wrong} of {len(names)}", "0", not num_wrong),
        JudgedFigure("texts of models and adapters", f"{len(set(results.texts.values()))}", "4", is_distinct),
        JudgedFigure(
            "loads, and models put to sleep",
            f"{results.num_loads} + {results.num_sleeps}",
            f"{least} loads of an oracle",
            results.num_loads + results.num_sleeps <= least,
        ),
        JudgedFigure("longest wait", f"{longest_s:.1f} s", f"{LOAD_WAIT_S} s", longest_s <= LOAD_WAIT_S),
        JudgedFigure(
            "most memory of a model's process",
            f"{memory.process_bytes / 1e6:.0f} MB",
            f"{memory.planned_bytes / 1e6:.0f} MB planned",
            memory.process_bytes <= memory.planned_bytes,
        ),
        JudgedFigure(
            "most processes at a time",
            f"{memory.num_processes}",
            f"{len(ADAPTERS)}",
            memory.num_processes <= len(ADAPTERS),
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--swap-seconds", type=float, default=5.0, help="MODEL_SWAP_SECONDS of the server")
    options = parser.parse_args()
    names = random.Random(1).choices(list(MODEL_OF), k=options.requests)
    figures = figures_of(names, run(names, options.clients, options.swap_seconds))
    print_table("Models that change places", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
