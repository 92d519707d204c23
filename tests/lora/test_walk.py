"""Random walks: adapters come and go while requests run, and every answer is that of its adapter in peft.

Prompts share prefixes, memory is short and sequences are preempted: if an adapter saw a page of another one,
an answer would change.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from inference.engine.background import BackgroundTask
from inference.errors import Overloaded
from inference.lora.registry import AdapterLease, AdapterRegistry
from inference.sampling import Sampling
from tests.engine.engine_answers import AnswerCollector
from tests.engine.generation_requests import make_request
from tests.lora.adapted_engine import MAX_RANK, AdaptedEngine
from tests.lora.peft_adapters import NEW, generate_greedily, peft_answers, save_adapter
from tests.tiny_models.families import VOCAB, needs_fused, tiny

BASE = -1


def shared_prompts() -> list[list[int]]:
    """Prompts of several pages, with common prefixes."""
    chance = random.Random(5)
    prefix = [chance.randint(3, VOCAB - 1) for _ in range(36)]
    return [
        prefix[:length] + [chance.randint(3, VOCAB - 1) for _ in range(3)] for length in (4, 17, 33, 36, 36)
    ]


@dataclass
class Walk:
    """Random loads, unloads and requests of adapters.

    folder_of  the folder of each loaded name
    requests   (folder, prompt, collector) of every request
    """

    served: AdaptedEngine
    folders: Sequence[Path]
    chance: random.Random
    max_adapters: int
    folder_of: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[int, int, AnswerCollector]] = field(default_factory=list)
    num_refused: int = 0

    def __post_init__(self) -> None:
        size = 1000
        self.registry = AdapterRegistry(
            self.run_task,
            lambda folder: folder,
            lambda folder: size,
            lambda: 10 * size,
            self.served.engine.seconds_until_adapter_is_unused,
            max_adapters=self.max_adapters,
            max_rank=MAX_RANK,
        )

    def run_task(self, task: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        future = self.served.engine.run(BackgroundTask(task(self.served.model, *args)))

        def wait() -> Any:
            while not future.done():
                self.served.engine.step()
            return future.result()

        return wait

    def load_each(self) -> None:
        for folder in range(len(self.folders)):
            self.load(f"adapter-{folder}", folder)

    def load_any(self) -> None:
        folder = self.chance.randrange(len(self.folders))
        self.load(f"adapter-{self.chance.randrange(len(self.folders))}", folder)

    def load(self, name: str, folder: int) -> None:
        try:
            self.registry.load(name, self.folders[folder], name, replace=True)
        except Overloaded:  # running answers use all adapters that may be in memory
            self.num_refused += 1
        else:
            self.folder_of[name] = folder

    def unload(self) -> None:
        if self.folder_of:
            name = self.chance.choice(sorted(self.folder_of))
            del self.folder_of[name]
            self.registry.unload(name)

    def submit(self) -> None:
        prompts, collector = shared_prompts(), AnswerCollector()
        prompt = self.chance.randrange(len(prompts))
        name = self.chance.choice(["", *self.folder_of])
        number, sinks = 0, [collector]
        if name:
            try:
                lease: AdapterLease = self.registry.lease(name, 1)
            except Overloaded:
                self.num_refused += 1
                return
            number, sinks = lease.number, lease.watch([collector])
        request = make_request(
            prompts[prompt], max_tokens=NEW, sampling=Sampling(greedy=True), adapter_number=number
        )
        collector.id = self.served.engine.submit([request], sinks)[0]
        self.requests.append((self.folder_of[name] if name else BASE, prompt, collector))

    def cancel(self) -> None:
        if self.requests:
            self.served.engine.abort([self.chance.choice(self.requests)[2].id])

    def step(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.served.engine.step()

    def run(self, num_actions: int) -> None:
        actions = [self.load_any, self.unload, self.cancel, *[self.submit] * 6, *[self.step] * 6]
        for _ in range(num_actions):
            self.chance.choice(actions)()
        self.served.run()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return save_adapters(tmp_path_factory, (None, None, ["norm"], None))


def save_adapters(factory: pytest.TempPathFactory, modules_to_save: Iterable[list[str] | None]) -> list[Path]:
    return [
        save_adapter(factory.mktemp("adapter"), "llama", seed, modules_to_save=modules)
        for seed, modules in enumerate(modules_to_save)
    ]


@pytest.fixture(scope="module")
def expected(folders: list[Path]) -> dict[int, list[list[int]]]:
    return answers_of_peft(folders)


def answers_of_peft(folders: Sequence[Path]) -> dict[int, list[list[int]]]:
    """The greedy answers to each prompt, by the index of the folder."""
    base = [generate_greedily(tiny("llama"), prompt) for prompt in shared_prompts()]
    return {BASE: base} | {
        index: peft_answers(folder, "llama", shared_prompts()) for index, folder in enumerate(folders)
    }


@pytest.mark.parametrize("kind", [pytest.param("fused", marks=needs_fused), "paged", "contiguous"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_adapter_sees_the_pages_of_another(
    folders: list[Path], expected: dict[int, list[list[int]]], kind: str, seed: int
) -> None:
    served = AdaptedEngine(tiny("llama"), (kind,), max_batch_total_tokens=160, speculate=3)
    check_walk(Walk(served, folders, random.Random(seed), max_adapters=2), 150, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("fused", marks=needs_fused), "paged"])
def test_twelve_adapters_answer_under_load_and_churn(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    folders = save_adapters(tmp_path_factory, [None] * 10 + [["norm"], ["lm_head"]])
    served = AdaptedEngine(tiny("llama"), (kind,), max_batch_total_tokens=160, speculate=3)
    walk = Walk(served, folders, random.Random(12), max_adapters=12)
    walk.load_each()
    check_walk(walk, 400, answers_of_peft(folders))
    assert len({folder for folder, *_ in walk.requests}) >= 10, "adapters come and go while others answer"


def check_walk(walk: Walk, num_actions: int, expected: dict[int, list[list[int]]]) -> None:
    """Every answer is that of its adapter, and all memory is given back."""
    walk.run(num_actions)
    for folder, prompt, collector in walk.requests:
        greedy_ids = expected[folder][prompt]
        assert collector.ids == (
            greedy_ids if collector.reason == "length" else greedy_ids[: len(collector.ids)]
        )
    for name in list(walk.folder_of):
        walk.registry.unload(name)
    walk.served.run()
    assert not walk.served.runner.adapters, "all weights were given back"
    stats = walk.served.engine.stats()
    assert stats.cached_tokens and sum(reason == "length" for *_, c in walk.requests if (reason := c.reason))
