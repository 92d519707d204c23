"""Neodim's list of layers: which device each layer goes to, and what is refused."""

import logging

import pytest

from checks import layers
from checks.finding import Refused
from tests import tiny
from tests.families import T5

LLAMA = tiny.LLAMA | {"model_type": "llama", "num_hidden_layers": 12}
OWN = {"model_type": "own"}  # its own code would have to tell


def refusal(asked: str, gpus: int = 2, config: dict[str, object] = LLAMA) -> str:
    with pytest.raises(Refused) as caught:
        layers.placed(asked, config, gpus=gpus)
    return caught.value.finding.have


@pytest.mark.parametrize(
    ("asked", "device"),
    [("0", "cpu"), ("0,0,0", "cpu"), ("a", "cuda"), ("12", "cuda"), ("12,0", "cuda"), ("12,a", "cuda")],
)
def test_what_puts_everything_on_one_device_names_no_layer(asked: str, device: str) -> None:
    assert layers.placed(asked, LLAMA, gpus=2) == (device, ())


@pytest.mark.parametrize(
    ("asked", "first", "second", "third"),
    [("1", 1, 0, 0), ("2,a,3", 2, 7, 3), ("0,a", 0, 12, 0), ("6,6", 6, 6, 0), ("a,1", 11, 1, 0)],
)
def test_a_split_has_the_first_layers_on_the_gpus(asked: str, first: int, second: int, third: int) -> None:
    gpus = ["cuda:0"] * first + ["cuda:1"] * second + ["cuda:2"] * third
    assert layers.placed(asked, LLAMA, gpus=3) == ("cuda", (*gpus, *["cpu"] * (12 - len(gpus))))


@pytest.mark.parametrize("asked", ["13", "6,7", "a,13"])
def test_more_layers_than_there_are_are_refused(asked: str) -> None:
    assert refusal(asked) == "the model has 12 layers"


@pytest.mark.parametrize(
    ("asked", "gpus", "have"),
    [
        ("2,a,3", 2, "2 GPUs, the last of which is GPU 1: there is no GPU 2"),
        ("0,1", 1, "1 GPU, which is GPU 0: there is no GPU 1"),
    ],
)
def test_a_gpu_that_is_not_there_is_named(asked: str, gpus: int, have: str) -> None:
    assert refusal(asked, gpus) == have


@pytest.mark.parametrize("asked", ["a,a", "-1", "all", "1,", "1.5"])
def test_what_is_no_list_of_layers_is_refused(asked: str) -> None:
    assert refusal(asked).startswith("numbers with commas")


@pytest.mark.parametrize("asked", ["1", "a", "2,a"])
def test_without_a_gpu_everything_is_on_the_cpu_and_the_log_says_so(
    asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert layers.placed(asked, LLAMA, gpus=0) == ("cpu", ())
    assert f"LAYERS={asked} asks for a GPU, and there is none" in caplog.text


def test_an_encoders_layers_count_too() -> None:
    assert layers.placed("4", T5 | {"model_type": "t5"}, gpus=1) == ("cuda", ())


@pytest.mark.parametrize(
    "config", [{"n_layer": 3}, {"text_config": {"num_hidden_layers": 3}}, {"num_layers": 3}]
)
def test_where_the_model_cannot_be_asked_its_config_is(config: dict[str, object]) -> None:
    assert layers.placed("3", OWN | config, gpus=1) == ("cuda", ())


def test_layers_that_nothing_counts_are_all_on_one_device() -> None:
    assert layers.placed("a", OWN, gpus=1) == ("cuda", ())
    assert "cannot be counted" in refusal("1", config=OWN)
