"""Neodim's list of layers (LAYERS): which device each layer goes to, and what is refused."""

import logging

import pytest

from checks.execution import layers
from inference.finding import Refused
from tests.tiny_models import tiny
from tests.tiny_models.families import T5

LLAMA = tiny.LLAMA | {"model_type": "llama", "num_hidden_layers": 12}
OWN = {"model_type": "own"}  # its layers can only be counted by running its own code


def refusal(setting: str, gpus: int = 2, config: dict[str, object] = LLAMA) -> str:
    with pytest.raises(Refused) as caught:
        layers.place_layers(setting, config, num_gpus=gpus)
    return caught.value.finding.have


@pytest.mark.parametrize(
    ("setting", "device"),
    [("0", "cpu"), ("0,0,0", "cpu"), ("a", "cuda"), ("12", "cuda"), ("12,0", "cuda"), ("12,a", "cuda")],
)
def test_a_list_with_one_device_names_no_layers(setting: str, device: str) -> None:
    assert layers.place_layers(setting, LLAMA, num_gpus=2) == (device, ())


@pytest.mark.parametrize(
    ("setting", "first", "second", "third"),
    [("1", 1, 0, 0), ("2,a,3", 2, 7, 3), ("0,a", 0, 12, 0), ("6,6", 6, 6, 0), ("a,1", 11, 1, 0)],
)
def test_a_split_has_the_first_layers_on_the_gpus(setting: str, first: int, second: int, third: int) -> None:
    gpus = ["cuda:0"] * first + ["cuda:1"] * second + ["cuda:2"] * third
    assert layers.place_layers(setting, LLAMA, num_gpus=3) == ("cuda", (*gpus, *["cpu"] * (12 - len(gpus))))


@pytest.mark.parametrize("setting", ["12", "13", "98"])
def test_one_number_above_the_models_layers_means_all(setting: str) -> None:
    assert layers.place_layers(setting, LLAMA, num_gpus=2) == ("cuda", ())


@pytest.mark.parametrize("setting", ["6,7", "a,13"])
def test_more_layers_than_the_model_has_are_refused(setting: str) -> None:
    assert refusal(setting) == "the model has 12 layers"


@pytest.mark.parametrize(
    ("setting", "gpus", "have"),
    [
        ("2,a,3", 2, "2 GPUs, numbered from 0: there is no GPU 2"),
        ("0,1", 1, "1 GPU, numbered from 0: there is no GPU 1"),
    ],
)
def test_a_missing_gpu_is_named(setting: str, gpus: int, have: str) -> None:
    assert refusal(setting, gpus) == have


@pytest.mark.parametrize("setting", ["a,a", "-1", "all", "1,", "1.5"])
def test_an_invalid_list_is_refused(setting: str) -> None:
    assert refusal(setting).startswith("not a list such as 20,a: ")


@pytest.mark.parametrize("setting", ["1", "a", "2,a"])
def test_without_a_gpu_everything_is_on_the_cpu_and_the_log_says_so(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert layers.place_layers(setting, LLAMA, num_gpus=0) == ("cpu", ())
    assert f"LAYERS={setting} needs a GPU, and torch sees none" in caplog.text


def test_encoder_layers_count_too() -> None:
    assert layers.place_layers("4", T5 | {"model_type": "t5"}, num_gpus=1) == ("cuda", ())


@pytest.mark.parametrize(
    "config", [{"n_layer": 3}, {"text_config": {"num_hidden_layers": 3}}, {"num_layers": 3}]
)
def test_layers_are_counted_from_the_config_if_the_model_cannot_be_built(config: dict[str, object]) -> None:
    assert layers.place_layers("3", OWN | config, num_gpus=1) == ("cuda", ())


def test_uncountable_layers_must_all_be_on_one_device() -> None:
    assert layers.place_layers("a", OWN, num_gpus=1) == ("cuda", ())
    assert "cannot be counted" in refusal("1", config=OWN)
