"""A model whose layers are on two devices, one of them simulated: every token is the same."""

from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.model.batch import Resize, Runner, make_batch
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.runner import PagedRunner
from inference.model.placement import hooks
from inference.model.placement.device_map import device_of, layer_stacks
from inference.model.placement.hooks import DeviceCopies, install_placement_hooks
from tests.engine.engine_answers import generate_reference, run_until_idle, submit
from tests.fakes.other_device import OTHER, OtherDevice
from tests.tiny_models.families import VOCAB, tiny

CPU = torch.device("cpu")
PROMPTS = ([5, 9, 13], [40, 41, 42, 43, 7, 8, 60, 11, 12])


@contextmanager
def simulated() -> Iterator[None]:
    with torch.inference_mode(), OtherDevice():
        yield


@contextmanager
def split_model(name: str, home: torch.device = OTHER, away: torch.device = CPU) -> Iterator[PreTrainedModel]:
    """A tiny model with the second half of its layers on `away`; its tensors are valid inside the context."""
    model = tiny(name)
    with nullcontext() if home.type == "cuda" else simulated():
        model.to(home)
        for stack in layer_stacks(model):
            for layer in stack[len(stack) // 2 :]:
                model.get_submodule(layer).to(away)
        yield model


def contiguous_runner(model: PreTrainedModel) -> ContiguousRunner:
    kind = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    chunked_prefill = model.config.model_type != "jamba"
    return kind(model, max_sequences=4, context=64, kv_capacity=256, chunked_prefill=chunked_prefill)


def paged_runner(model: PreTrainedModel) -> PagedRunner:
    runner = PagedRunner(model, KVPool(16), max_sequences=4, context=64)
    runner.probe()
    return runner


def generate_all(runner: Runner) -> list[list[int]]:
    served = Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=16, max_queued_tokens=1000))
    sinks = [submit(served, prompt) for prompt in PROMPTS]
    run_until_idle(served)
    return [sink.ids for sink in sinks]


MakeRunner = Callable[[PreTrainedModel], Runner]
CASES: tuple[tuple[str, MakeRunner], ...] = (
    ("llama", contiguous_runner),
    ("llama", paged_runner),
    ("gpt2", contiguous_runner),
    ("gemma2", paged_runner),
    ("jamba", contiguous_runner),
    ("t5", contiguous_runner),
)


@pytest.mark.parametrize(("name", "make_runner"), CASES)
def test_a_split_model_answers_like_the_whole_one(name: str, make_runner: MakeRunner) -> None:
    expected = [generate_reference(tiny(name), prompt) for prompt in PROMPTS]
    with split_model(name) as model:
        install_placement_hooks(model)
        assert generate_all(make_runner(model)) == expected


def test_the_first_layers_may_be_on_the_cpu_as_well() -> None:
    expected = [generate_reference(tiny("gpt_neo"), prompt) for prompt in PROMPTS]
    with split_model("gpt_neo", home=CPU, away=OTHER) as model:
        install_placement_hooks(model)
        assert generate_all(contiguous_runner(model)) == expected


def test_kv_memory_is_on_the_device_of_its_layer() -> None:
    with split_model("llama") as model:
        install_placement_hooks(model)
        runner = contiguous_runner(model)
        runner.forward(make_batch([5, 9], (0, 2), (0,), (0,), (1,), (Resize(2, 64),), page_size=64))
        devices = [table.data.device for table in runner.memory.tensors if table.data is not None]
    assert devices == [OTHER, OTHER, CPU, CPU]


def test_no_weight_moves() -> None:
    with split_model("llama") as model:
        install_placement_hooks(model)
        before = {name: id(weight) for name, weight in model.named_parameters()}
        contiguous_runner(model).forward(
            make_batch([5, 9], (0, 2), (0,), (0,), (1,), (Resize(2, 64),), page_size=64)
        )
        assert {name: id(weight) for name, weight in model.named_parameters()} == before
        assert device_of(model.model.layers[1]) == CPU


def test_arguments_shared_by_all_layers_are_copied_once() -> None:
    mask, copies = torch.ones(2), DeviceCopies()
    with OtherDevice():
        assert copies.on_device(CPU, mask) is mask
        assert copies.on_device(OTHER, mask) is copies.on_device(OTHER, mask)


def test_keys_and_values_that_layers_share_move_in_place() -> None:
    shared = UserDict(full_attention=(torch.ones(2), torch.zeros(3)))
    options = {"shared_kv_states": shared}
    _, moved = hooks.move_inputs(DeviceCopies(), torch.device("meta"), torch.nn.Module(), (), options)
    assert moved["shared_kv_states"] is shared
    assert [(tensor.device.type, len(tensor)) for tensor in shared["full_attention"]] == [
        ("meta", 2),
        ("meta", 3),
    ]


def test_copies_are_released_at_the_end_of_a_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    instances: list[DeviceCopies] = []
    monkeypatch.setattr(hooks, "DeviceCopies", lambda: instances.append(DeviceCopies()) or instances[-1])
    with split_model("llama") as model:
        install_placement_hooks(model)
        model(torch.tensor([[5, 9]], device=OTHER))
    assert [copies.by_device for copies in instances] == [{}]


def test_a_half_without_layers_needs_no_hooks() -> None:
    hooks.hook_layers([], CPU)


def test_without_hooks_tensors_of_two_devices_meet() -> None:
    with split_model("llama") as model, pytest.raises(RuntimeError, match="same device"):
        model(torch.tensor([[5, 9]], device=OTHER))


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "make_runner"), CASES)
def test_a_model_on_a_gpu_and_the_cpu_answers_as_one_on_the_cpu(name: str, make_runner: MakeRunner) -> None:
    expected = [generate_reference(tiny(name), prompt) for prompt in PROMPTS]
    with split_model(name, home=torch.device("cuda", 0)) as model:
        install_placement_hooks(model)
        assert generate_all(make_runner(model)) == expected
