"""Neodim's list of layers: what of it means one device, and what is refused."""

import logging

import pytest

from checks import Refused, layers

CONFIG = {"num_hidden_layers": 12}


@pytest.mark.parametrize(
    ("asked", "device"),
    [("0", "cpu"), ("0,0", "cpu"), ("a", "cuda"), ("12", "cuda"), ("12,0", "cuda")],
)
def test_what_puts_everything_on_one_device_is_obeyed(asked: str, device: str) -> None:
    assert layers.device(asked, CONFIG, gpus=2) == device


@pytest.mark.parametrize("asked", ["1", "2,a,3", "0,a", "6,6", "a,1"])
def test_a_split_is_refused_until_it_can_be_done(asked: str) -> None:
    with pytest.raises(Refused) as caught:
        layers.device(asked, CONFIG, gpus=2)
    assert "until layer placement lands" in caught.value.finding.have


def test_more_layers_than_there_are_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        layers.device("13", CONFIG, gpus=1)
    assert caught.value.finding.have == "the model has 12 layers"


@pytest.mark.parametrize("asked", ["a,a", "-1", "all", "1,", "1.5"])
def test_what_is_no_list_of_layers_is_refused(asked: str) -> None:
    with pytest.raises(Refused) as caught:
        layers.device(asked, CONFIG, gpus=1)
    assert caught.value.finding.have.startswith("numbers with commas")


@pytest.mark.parametrize("asked", ["1", "a", "2,a"])
def test_without_a_gpu_everything_is_on_the_cpu_and_the_log_says_so(
    asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert layers.device(asked, CONFIG, gpus=0) == "cpu"
    assert f"LAYERS={asked} asks for a GPU, and there is none" in caplog.text


@pytest.mark.parametrize(
    "config", [{"n_layer": 3}, {"text_config": {"num_hidden_layers": 3}}, {"num_layers": 3}]
)
def test_the_number_of_layers_is_found_by_every_name(config: dict[str, object]) -> None:
    assert layers.device("3", config, gpus=1) == "cuda"
