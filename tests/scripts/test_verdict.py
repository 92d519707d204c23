"""How long a verdict takes: the Hub that is asked has what the real one would, and no weights."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from checks.measure import skeleton
from checks.source.tensors import LENGTH, parsed
from scripts.verdict import files
from scripts.verdict.hub import COMMIT, Hub, running
from scripts.verdict.shapes import LARGE
from scripts.verdict.timed import MOST_BYTES, MOST_S, Verdict, row, timed, too_much
from scripts.weigh.shapes import Shape
from tests.families import LLAMA

MANY = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "vocab_size": 97, "dtype": "bfloat16"}
TINY = Shape("acme/tiny", MANY)
EIGHT_BITS = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}}
QUARTER = 10_000  # bytes of a shard, so that there are several


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> dict[str, files.Stored]:
    monkeypatch.setattr(files, "SHARD", QUARTER)
    return files.repository(TINY)


@pytest.fixture
def hub(tiny: dict[str, files.Stored]) -> Iterator[Hub]:
    with running(TINY.name, tiny, 0) as hub:
        yield hub


def shards(found: dict[str, files.Stored]) -> list[files.Stored]:
    return [file for name, file in found.items() if name.endswith(".safetensors")]


def test_the_shards_are_those_of_the_model_as_far_as_their_headers(tiny: dict[str, files.Stored]) -> None:
    headers = [parsed(shard.start[LENGTH:]) for shard in shards(tiny)]
    assert len(headers) > 3
    assert [header.end for header in headers] == [shard.size for shard in shards(tiny)]
    held = sum(tensor.numel() for header in headers for tensor in header.tensors.values())
    assert held == sum(weight.numel() for weight in skeleton(MANY).parameters())


def test_experts_are_apart_as_files_have_them(tiny: dict[str, files.Stored]) -> None:
    names = {name for shard in shards(tiny) for name in parsed(shard.start[LENGTH:]).tensors}
    assert sum(".experts." in name for name in names) == 2 * 4 * 3


def test_weights_in_eight_bits_have_a_scale_for_each_block() -> None:
    held = files.tensors(Shape(TINY.name, MANY | EIGHT_BITS, "fp8"))
    scale = held["model.layers.0.self_attn.q_proj.weight_scale_inv"]
    assert scale.shape == (2, 2)


def test_weights_lie_elsewhere_and_are_not_to_be_had(hub: Hub) -> None:
    name = next(name for name in hub.files if name.endswith(".safetensors"))
    header = len(hub.files[name].start)
    url = f"{hub.url}/{hub.name}/resolve/{COMMIT}/{name}"
    answers = [
        requests.get(url, headers={"Range": f"bytes=0-{last}"}, timeout=5) for last in (header - 1, header)
    ]
    assert [answer.status_code for answer in answers] == [206, 500]
    assert answers[0].content == hub.files[name].start
    assert "localhost" in answers[0].url


def test_all_that_goes_over_the_wire_is_counted(hub: Hub) -> None:
    body = requests.get(f"{hub.url}/api/models/{hub.name}", timeout=5).content
    assert hub.requests == 1 and len(body) < hub.wire < len(body) + 1000


@pytest.mark.parametrize("shape", LARGE, ids=lambda shape: shape.name)
def test_every_shape_is_of_a_known_architecture(shape: Shape) -> None:
    assert skeleton({name: value for name, value in shape.raw.items() if name != files.QUANTISED})


def test_a_line_of_the_table() -> None:
    assert row("acme/tiny", 4, Verdict(1.234, 17, 64871)) == "| acme/tiny | 4 | 1.23 | 17 | 64,871 |"


def test_too_much_is_what_the_aim_is_not() -> None:
    assert not too_much(Verdict(MOST_S - 0.1, 9, MOST_BYTES - 1))
    assert too_much(Verdict(MOST_S, 9, 0)) and too_much(Verdict(0.0, 9, MOST_BYTES))


@pytest.mark.slow
def test_the_command_is_timed_to_its_end(hub: Hub, tmp_path: Path) -> None:
    told = timed(hub, tmp_path, 1)
    assert told.seconds > 0 and told.requests > 5 and told.wire < MOST_BYTES


@pytest.mark.slow
def test_what_is_no_verdict_is_not_timed(hub: Hub, tmp_path: Path) -> None:
    hub.files = {}
    with pytest.raises(subprocess.SubprocessError):
        timed(hub, tmp_path, 1)
