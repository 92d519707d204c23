"""A model whose layers are on two devices, one of which only the tests have: every token is the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.model.batch import Batch, Runner, Shape
from inference.model.packed.runner import PackedRunner
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.model.split.carry import carry
from inference.model.split.copies import Copies
from inference.model.split.spread import device_of, stacks
from tests.families import VOCAB, tiny
from tests.other_device import OTHER, OtherDevice
from tests.test_families import ask, finish, generated

CPU = torch.device("cpu")
PROMPTS = ([5, 9, 13], [40, 41, 42, 43, 7, 8, 60, 11, 12])


@contextmanager
def simulated() -> Iterator[None]:
    with torch.inference_mode(), OtherDevice():
        yield


@contextmanager
def split(name: str, home: torch.device = OTHER, away: torch.device = CPU) -> Iterator[PreTrainedModel]:
    """A tiny model, the second half of its layers away. Its tensors are there as long as this lasts."""
    model = tiny(name)
    with nullcontext() if home.type == "cuda" else simulated():
        model.to(home)
        for stack in stacks(model):
            for layer in stack[len(stack) // 2 :]:
                model.get_submodule(layer).to(away)
        yield model


def slots(model: PreTrainedModel) -> SlotRunner:
    kind = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    resumes = model.config.model_type != "jamba"
    return kind(model, max_rows=4, context=64, area=256, resumes=resumes)


def pages(model: PreTrainedModel) -> PackedRunner:
    runner = PackedRunner(model, max_rows=4, context=64, area=256)
    runner.probe()
    return runner


def answers(runner: Runner) -> list[list[int]]:
    served = Engine(runner, Sampler(VOCAB), max_batch_tokens=16, max_queued_tokens=1000)
    ears = [ask(served, prompt) for prompt in PROMPTS]
    finish(served)
    return [ear.ids for ear in ears]


Seat = Callable[[PreTrainedModel], Runner]
CASES: tuple[tuple[str, Seat], ...] = (
    ("llama", slots),
    ("llama", pages),
    ("gpt2", slots),
    ("gemma2", pages),
    ("jamba", slots),
    ("t5", slots),
)


@pytest.mark.parametrize(("name", "seat"), CASES)
def test_a_split_model_answers_as_the_whole_one_does(name: str, seat: Seat) -> None:
    expected = [generated(tiny(name), prompt) for prompt in PROMPTS]
    with split(name) as model:
        carry(model)
        assert answers(seat(model)) == expected


def test_the_first_layers_may_be_on_the_cpu_as_well() -> None:
    expected = [generated(tiny("gpt_neo"), prompt) for prompt in PROMPTS]
    with split("gpt_neo", home=CPU, away=OTHER) as model:
        carry(model)
        assert answers(slots(model)) == expected


def test_what_a_layer_remembers_is_where_the_layer_is() -> None:
    with split("llama") as model:
        carry(model)
        runner = slots(model)
        runner.forward(Batch([5, 9], (0, 2), (0,), (0,), (1,), (Shape(2, 64),)))
        remembered = [table.data.device for table in runner.memory.tables if table.data is not None]
    assert remembered == [OTHER, OTHER, CPU, CPU]


def test_no_weight_moves() -> None:
    with split("llama") as model:
        carry(model)
        before = {name: id(weight) for name, weight in model.named_parameters()}
        slots(model).forward(Batch([5, 9], (0, 2), (0,), (0,), (1,), (Shape(2, 64),)))
        assert {name: id(weight) for name, weight in model.named_parameters()} == before
        assert device_of(model.model.layers[1]) == CPU


def test_what_all_layers_are_given_is_copied_once() -> None:
    mask, copies = torch.ones(2), Copies()
    with OtherDevice():
        assert copies.on(CPU, mask) is mask
        assert copies.on(OTHER, mask) is copies.on(OTHER, mask)


def test_without_it_tensors_of_two_devices_meet() -> None:
    with split("llama") as model, pytest.raises(RuntimeError, match="same device"):
        model(torch.tensor([[5, 9]], device=OTHER))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "seat"), CASES)
def test_a_model_on_a_gpu_and_the_cpu_answers_as_one_on_the_cpu(name: str, seat: Seat) -> None:
    expected = [generated(tiny(name), prompt) for prompt in PROMPTS]
    with split(name, home=torch.device("cuda", 0)) as model:
        carry(model)
        assert answers(seat(model)) == expected
