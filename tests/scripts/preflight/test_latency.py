"""The latency of a check, against a local Hub that has the real Hub's files without weights."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from checks.memory import try_build_on_meta
from hub.tensors import LENGTH_BYTES, parse_header
from scripts.preflight.latency import files, timing
from scripts.preflight.latency.hub import COMMIT, LocalHub, running_hub
from scripts.preflight.latency.shapes import LARGE_SHAPES
from scripts.preflight.latency.timing import MAX_BYTES, MAX_S, Timing, exceeds_limits, time_checks, timing_row
from scripts.preflight.sizes.shapes import Shape
from tests.tiny_models.families import LLAMA

MANY = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "vocab_size": 97, "dtype": "bfloat16"}
TINY = Shape("acme/tiny", MANY)
EIGHT_BITS = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}}
QUARTER = 10_000  # bytes of a shard, so that there are several shards


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> dict[str, files.HubFile]:
    monkeypatch.setattr(files, "MAX_SHARD_BYTES", QUARTER)
    return files.make_repository(TINY)


@pytest.fixture
def hub(tiny: dict[str, files.HubFile]) -> Iterator[LocalHub]:
    with running_hub(TINY.name, tiny, 0) as hub:
        yield hub


def shards(stored_files: dict[str, files.HubFile]) -> list[files.HubFile]:
    return [file for name, file in stored_files.items() if name.endswith(".safetensors")]


def test_shards_have_the_headers_of_the_model(tiny: dict[str, files.HubFile]) -> None:
    headers = [parse_header(shard.start[LENGTH_BYTES:]) for shard in shards(tiny)]
    assert len(headers) > 3
    assert [header.end for header in headers] == [shard.size for shard in shards(tiny)]
    num_values = sum(tensor.numel() for header in headers for tensor in header.tensors.values())
    assert num_values == sum(weight.numel() for weight in try_build_on_meta(MANY).parameters())


def test_experts_are_separate_as_in_real_files(tiny: dict[str, files.HubFile]) -> None:
    names = {name for shard in shards(tiny) for name in parse_header(shard.start[LENGTH_BYTES:]).tensors}
    assert sum(".experts." in name for name in names) == 2 * 4 * 3


def test_fp8_weights_have_a_scale_for_each_block() -> None:
    tensors = files.file_tensors(Shape(TINY.name, MANY | EIGHT_BITS, "fp8"))
    scale = tensors["model.layers.0.self_attn.q_proj.weight_scale_inv"]
    assert scale.shape == (2, 2)


def test_weights_are_on_another_host_and_cannot_be_fetched(hub: LocalHub) -> None:
    name = next(name for name in hub.files if name.endswith(".safetensors"))
    header = len(hub.files[name].start)
    url = f"{hub.url}/{hub.name}/resolve/{COMMIT}/{name}"
    responses = [
        requests.get(url, headers={"Range": f"bytes=0-{last}"}, timeout=60) for last in (header - 1, header)
    ]
    assert [response.status_code for response in responses] == [206, 500]
    assert responses[0].content == hub.files[name].start
    assert "localhost" in responses[0].url


def test_all_bytes_on_the_wire_are_counted(hub: LocalHub) -> None:
    body = requests.get(f"{hub.url}/api/models/{hub.name}", timeout=60).content
    assert hub.num_requests == 1 and len(body) < hub.wire_bytes < len(body) + 1000


@pytest.mark.parametrize("shape", LARGE_SHAPES, ids=lambda shape: shape.name)
def test_every_shape_is_of_a_known_architecture(shape: Shape) -> None:
    assert try_build_on_meta(
        {name: value for name, value in shape.config.items() if name != files.QUANTIZATION_CONFIG}
    )


def test_a_timing_is_a_row_of_the_table() -> None:
    assert timing_row("acme/tiny", 4, Timing(1.234, 17, 64871)) == "| acme/tiny | 4 | 1.23 | 17 | 64,871 |"


def test_limits_are_exceeded_at_their_values() -> None:
    assert not exceeds_limits(Timing(MAX_S - 0.1, 9, MAX_BYTES - 1))
    assert exceeds_limits(Timing(MAX_S, 9, 0)) and exceeds_limits(Timing(0.0, 9, MAX_BYTES))


@pytest.mark.slow
def test_the_command_is_timed_to_its_end(hub: LocalHub, tmp_path: Path) -> None:
    timed = time_checks(hub, tmp_path, 1)
    assert timed.seconds > 0 and timed.num_requests > 5 and timed.wire_bytes < MAX_BYTES


def test_a_failing_command_is_not_timed(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.py").write_text("import sys; sys.exit('refused')")
    monkeypatch.setattr(timing, "ROOT", tmp_path)
    with pytest.raises(subprocess.SubprocessError, match="refused"):
        time_checks(hub, tmp_path, 1)
