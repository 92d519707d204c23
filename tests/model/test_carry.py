"""A model whose layers are on two devices, one of which only the tests have: every token is the same."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.errors import Unavailable
from inference.model import fit
from inference.model.batch import Batch, Shape
from inference.model.carry import carry
from inference.model.copies import Copies
from inference.model.slots import SlotRunner
from inference.model.spread import device_of, stacks
from tests.families import VOCAB, tiny
from tests.other_device import OTHER, OtherDevice
from tests.test_families import ask, finish, generated

FAMILIES = ("llama", "gpt2", "gemma2", "jamba", "t5")
CPU = torch.device("cpu")
PROMPTS = ([5, 9, 13], [40, 41, 42, 43, 7, 8, 60, 11, 12])


@contextmanager
def split(name: str, home: torch.device = OTHER, away: torch.device = CPU) -> Iterator[PreTrainedModel]:
    """A tiny model, the second half of its layers away. Its tensors are there as long as this lasts."""
    model = tiny(name)
    real = home.type == "cuda"
    with torch.inference_mode(), nullcontext() if real else OtherDevice():
        model.to(home)
        for stack in stacks(model):
            for layer in stack[len(stack) // 2 :]:
                model.get_submodule(layer).to(away)
        yield model


def fitted(model: PreTrainedModel) -> fit.Fitted:
    return fit.choose(model, max_rows=4, context=64, kv_bytes=1 << 24)


def answers(model: PreTrainedModel) -> list[list[int]]:
    served = Engine(fitted(model).runner, Sampler(VOCAB), max_batch_tokens=16, max_queued_tokens=1000)
    ears = [ask(served, prompt) for prompt in PROMPTS]
    finish(served)
    return [ear.ids for ear in ears]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_split_model_answers_as_the_whole_one_does(name: str) -> None:
    expected = [generated(tiny(name), prompt) for prompt in PROMPTS]
    with split(name) as model:
        carry(model)
        assert answers(model) == expected


def test_the_first_layers_may_be_on_the_cpu_as_well() -> None:
    with split("gpt_neo", home=CPU, away=OTHER) as model:
        carry(model)
        assert fitted(model).error < 1e-4


def test_what_a_layer_remembers_is_where_the_layer_is() -> None:
    with split("llama") as model:
        carry(model)
        runner = SlotRunner(model, max_rows=2, context=64, area=128, resumes=True)
        runner.forward(Batch([5, 9], (0, 2), (0,), (0,), (1,), (Shape(2, 64),)))
        remembered = [table.data.device for table in runner.memory.tables if table.data is not None]
    assert remembered == [OTHER, OTHER, CPU, CPU]


def test_no_weight_moves() -> None:
    with split("llama") as model:
        carry(model)
        before = {name: id(weight) for name, weight in model.named_parameters()}
        fitted(model)
        assert {name: id(weight) for name, weight in model.named_parameters()} == before
        assert device_of(model.model.layers[1]) == CPU


def test_what_all_layers_are_given_is_copied_once() -> None:
    mask, copies = torch.ones(2), Copies()
    with OtherDevice():
        assert copies.on(CPU, mask) is mask
        assert copies.on(OTHER, mask) is copies.on(OTHER, mask)


def test_without_it_tensors_of_two_devices_meet() -> None:
    with split("llama") as model, pytest.raises(Unavailable, match="same device"):
        fitted(model)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_on_a_gpu_and_the_cpu_answers_as_one_on_the_cpu(name: str) -> None:
    expected = [generated(tiny(name), prompt) for prompt in PROMPTS]
    with split(name, home=torch.device("cuda", 0)) as model:
        carry(model)
        assert answers(model) == expected
