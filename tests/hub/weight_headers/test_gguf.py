"""GGUF files: selected, inspected, planned from their headers, and fetched without the others."""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.torch import load_file
from transformers import AutoConfig

from checks import preflight
from checks.machine import Machine
from checks.memory.plan import Plan, replan
from checks.model import weights
from hub.client import Hub
from hub.download import fetch
from hub.repository import Repository
from hub.weight_files import AllowedFiles, select_weight_files
from hub.weight_headers.gguf import config_from_header, with_gguf_config
from inference.finding import Finding, Refused
from inference.model.load.gguf.file.cursor import NotGguf, pack_string
from inference.model.load.gguf.file.header import header_start, read_header
from inference.model.load.gguf.file.setting import ALIGNMENT, UINT32
from inference.model.load.gguf.file.shards import shard_paths
from inference.model.load.loader import load
from inference.model.memory_usage import weight_bytes
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.fakes import fake_hub
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import tiny_gguf, write

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]
SIZES = {"a-Q4_K_M.gguf": 5 * 10**9, "a-Q8_0.gguf": 9 * 10**9, "mmproj-a.gguf": 10**9, "README.md": 5}

SHARDS = {"a-Q8-00001-of-00002.gguf": 3 * 10**9, "a-Q8-00002-of-00002.gguf": 10**9}


def range_reader(path: Path) -> Callable[[int, int], bytes]:
    data = path.read_bytes()
    return lambda start, stop: data[start:stop]


@pytest.fixture
def several(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    """acme/packed: a model in two GGUF files, and no config.json."""
    path = tiny_gguf(tmp_path / "packed")
    path.with_name("tiny-Q4_0.gguf").write_bytes(path.read_bytes())
    path.with_name("README.md").write_text("two sizes")
    fake.repos["acme/packed"] = fake_hub.Repo(path.parent)
    return fake.repos["acme/packed"]


def refusal(sizes: dict[str, int], setting: str = "") -> Finding:
    with pytest.raises(Refused) as caught:
        select_weight_files(sizes, None, AllowedFiles(gguf_file=setting))
    return caught.value.finding


@pytest.mark.parametrize("setting", ["a-Q8_0.gguf", "Q8_0", "q8"])
def test_a_file_is_selected_by_its_name_or_a_part_of_it(setting: str) -> None:
    assert select_weight_files(SIZES, None, AllowedFiles(gguf_file=setting)) == {"a-Q8_0.gguf"}


def test_one_of_several_must_be_selected_and_their_sizes_are_listed() -> None:
    finding = refusal(SIZES)
    assert finding.have == "a-Q4_K_M.gguf (5.0 GB), a-Q8_0.gguf (9.0 GB)"
    assert finding.fix == 'GGUF_FILE = "a-Q4_K_M.gguf", or another one'


def test_an_unknown_file_is_refused_with_the_existing_ones() -> None:
    assert refusal(SIZES, "Q5").have == "a-Q4_K_M.gguf (5.0 GB), a-Q8_0.gguf (9.0 GB)"


def test_a_single_file_needs_no_selection() -> None:
    assert select_weight_files({"a.gguf": 1, "mmproj.gguf": 1}, None, AllowedFiles()) == {"a.gguf"}


@pytest.mark.parametrize("setting", ["", "Q8", "a-Q8-00001-of-00002.gguf", "a-Q8-00002-of-00002.gguf"])
def test_selecting_one_shard_selects_all(setting: str) -> None:
    assert select_weight_files(SHARDS, None, AllowedFiles(gguf_file=setting)) == set(SHARDS)


def test_shards_are_listed_as_one() -> None:
    finding = refusal(SHARDS | {"a-Q4.gguf": 2 * 10**9})
    assert finding.have == "a-Q4.gguf (2.0 GB), a-Q8-00001-of-00002.gguf (4.0 GB)"


def test_a_missing_shard_is_named() -> None:
    finding = refusal({"a-00001-of-00003.gguf": 1, "a-00003-of-00003.gguf": 1})
    assert (finding.need, finding.have) == ("3 parts", "2")
    assert finding.fix.startswith("a-00002-of-00003.gguf is missing")


def test_safetensors_are_preferred_unless_a_gguf_is_selected() -> None:
    sizes = SIZES | {"model.safetensors": 10}
    assert select_weight_files(sizes, None, AllowedFiles()) == {"model.safetensors"}
    assert select_weight_files(sizes, None, AllowedFiles(gguf_file="Q8")) == {"a-Q8_0.gguf"}


def test_its_config_equals_what_transformers_reads(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    values = config_from_header(read_header(range_reader(path), size, size), size)
    expected = AutoConfig.from_pretrained(path.parent, gguf_file=path.name).to_dict()
    assert values == {name: value for name, value in expected.items() if name in values}
    assert values["vocab_size"] == 320 and values["tie_word_embeddings"] is False


def test_the_beginning_of_the_header_is_enough(tmp_path: Path) -> None:
    """Metadata up to the vocabulary's end suffice: the table of tensors is not reached."""
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    little, all_of_it = (read_header(range_reader(path), size, most, read_size=256) for most in (1024, size))
    assert little.tensors is None and all_of_it.tensors and len(all_of_it.tensors) == 21
    assert config_from_header(little, size) == config_from_header(all_of_it, size)


NAN_ALIGNMENT = header_start(0, 1) + pack_string(ALIGNMENT) + struct.pack("<If", 6, float("nan"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no such thing" * 9, NAN_ALIGNMENT])
def test_a_file_that_is_no_gguf_is_refused(
    tmp_path: Path, content: bytes, look_up: LookUp, client: Hub
) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(NotGguf):
        read_header(range_reader(tmp_path / "x.gguf"), len(content), len(content))
    with pytest.raises(Refused) as caught:
        with_gguf_config(look_up(str(tmp_path / "x.gguf")), client)
    assert "GGUF_FILE" in caught.value.finding.fix


def test_a_truncated_file_ends_within_its_header(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(NotGguf, match="ends within its header"):
        read_header(range_reader(path), size, size)


def served_bytes(source: Path) -> int:
    """Bytes of the weights as one process on the CPU serves them in bfloat16."""
    settings = ModelSettings(dtype="bfloat16", device="cpu")
    return weight_bytes(load(source, settings, formats=KEPT_FORMATS).model)["cpu"]


def test_quantize_is_planned_from_the_dequantized_weights(
    fake: fake_hub.FakeHub, several: fake_hub.Repo, look_up: LookUp, client: Hub, planned: Planner
) -> None:
    repository = look_up("acme/packed", allowed=AllowedFiles(gguf_file="Q8_0"))
    packed_plan = planned(with_gguf_config(repository, client), dtype="bfloat16")
    dequantized_plan = replan(packed_plan, quantize="int8")
    assert packed_plan.model_size and dequantized_plan.model_size
    assert packed_plan.model_size.weights < 0.6 * dequantized_plan.model_size.weights
    assert replan(dequantized_plan, quantize="none").model_size == packed_plan.model_size


def test_on_the_hub_it_is_planned_from_its_header_and_fetched_alone(
    fake: fake_hub.FakeHub,
    several: fake_hub.Repo,
    look_up: LookUp,
    client: Hub,
    planned: Planner,
    machine: Machine,
) -> None:
    repository = look_up("acme/packed", allowed=AllowedFiles(gguf_file="Q8_0"))
    plan = planned(with_gguf_config(repository, client), dtype="bfloat16")
    assert [finding for finding in preflight.run_checks(plan, machine) if not finding.ok] == []
    folder = fetch(plan.repository, client)
    assert not (folder / "tiny-Q4_0.gguf").exists()
    assert plan.model_size and plan.model_size.weights == served_bytes(folder / repository.gguf_file)


def test_a_file_whose_tensors_do_not_fit_its_config_is_refused(
    tmp_path: Path, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    path = tiny_gguf(tmp_path / "packed")
    width = pack_string("llama.feed_forward_length") + struct.pack("<I", UINT32)
    before, _, after = path.read_bytes().partition(width)
    path.write_bytes(before + width + struct.pack("<I", 96) + after[4:])
    plan = planned(with_gguf_config(look_up(str(path)), client), dtype="bfloat16")
    (finding,) = [each for each in preflight.run_checks(plan, machine) if not each.ok]
    assert finding.name == "weights"
    assert finding.have.startswith("6 tensors of the wrong shape, such as blk.0.ffn_")


def test_a_tensor_that_no_parameter_takes_is_refused_before_the_download(
    tmp_path: Path, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    further = {"output.bias": np.ones(320, np.float32)}
    path = write(tiny.llama(tmp_path / "llama"), tmp_path / "a.gguf", further=further)
    finding = weights.check(planned(with_gguf_config(look_up(str(path)), client), dtype="bfloat16"), machine)
    assert (finding.ok, finding.have) == (False, "1 tensor that the model would ignore, such as output.bias")


def test_formats_that_are_dequantized_are_named_before_the_download(
    tmp_path: Path, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = tiny.llama(tmp_path / "llama", hidden_size=256, intermediate_size=256)
    path = write(folder, tmp_path / "a.gguf", value_type=gguf.GGMLQuantizationType.TQ1_0)
    plan = planned(with_gguf_config(look_up(str(path)), client), dtype="bfloat16")
    finding = weights.check(plan, machine)
    assert finding.ok and finding.have.endswith("; weights in TQ1_0 are dequantized to bfloat16")


def test_a_fetched_gguf_is_found_offline(
    fake: fake_hub.FakeHub, several: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    fetch(with_gguf_config(look_up("acme/packed", allowed=AllowedFiles(gguf_file="Q8_0")), client), client)
    fake.requests.clear()
    repository = with_gguf_config(
        look_up("acme/packed", allowed=AllowedFiles(gguf_file="Q8_0"), offline=True), client
    )
    assert (repository.gguf_file, repository.config["model_type"], fake.requests) == (
        "tiny-Q8_0.gguf",
        "llama",
        [],
    )


@pytest.fixture
def sharded(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    """acme/parts: a model in three GGUF shards in their own folder, and one in a single file."""
    first = tiny_gguf(tmp_path / "parts" / "Q8", max_tensors=8)
    write(tmp_path / "parts" / "Q8-whole", first.parent.parent / "tiny-F16.gguf")
    fake.repos["acme/parts"] = fake_hub.Repo(first.parent.parent)
    return fake.repos["acme/parts"]


def gguf_files(requests: Iterable[fake_hub.HubRequest]) -> list[str]:
    return [request.what.rpartition("/")[2] for request in requests if ".gguf" in request.what]


def test_a_sharded_gguf_is_planned_from_all_headers_and_fetched_whole(
    fake: fake_hub.FakeHub,
    sharded: fake_hub.Repo,
    look_up: LookUp,
    client: Hub,
    planned: Planner,
    machine: Machine,
) -> None:
    repository = look_up("acme/parts", allowed=AllowedFiles(gguf_file="Q8_0"))
    fake.requests.clear()
    plan = planned(with_gguf_config(repository, client), dtype="bfloat16")
    assert sorted(gguf_files(fake.requests)) == [
        f"tiny-Q8_0-{number:05}-of-00003.gguf" for number in (1, 2, 3)
    ]
    sizes = [path.stat().st_size for path in (sharded.folder / "Q8").iterdir()]
    assert [finding for finding in preflight.run_checks(plan, machine) if not finding.ok] == []
    assert plan.repository.weight_bytes == sum(sizes) and plan.repository.bytes_to_fetch >= sum(sizes)
    folder = fetch(plan.repository, client)
    assert len(list((folder / "Q8").iterdir())) == 3 and not (folder / "tiny-F16.gguf").exists()
    assert plan.model_size and plan.model_size.weights == served_bytes(folder / repository.gguf_file)


def test_a_sharded_gguf_is_found_offline(
    fake: fake_hub.FakeHub, sharded: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(
        with_gguf_config(look_up("acme/parts", allowed=AllowedFiles(gguf_file="Q8_0")), client), client
    )
    fake.requests.clear()
    repository = with_gguf_config(
        look_up("acme/parts", allowed=AllowedFiles(gguf_file="Q8_0"), offline=True), client
    )
    assert (repository.gguf_file, len(repository.weight_files), fake.requests) == (
        "Q8/tiny-Q8_0-00001-of-00003.gguf",
        3,
        [],
    )
    (folder / repository.weight_files[1].name).unlink()
    with pytest.raises(Refused, match=r"tiny-Q8_0-00002-of-00003\.gguf is missing"):
        look_up("acme/parts", allowed=AllowedFiles(gguf_file="Q8_0"), offline=True)


@pytest.mark.parametrize("shard_index", [0, 1])
def test_any_shard_may_be_named_by_its_path(
    tmp_path: Path, look_up: LookUp, client: Hub, shard_index: int
) -> None:
    first = tiny_gguf(tmp_path / "Q8", max_tensors=8)
    repository = with_gguf_config(look_up(str(shard_paths(first)[shard_index])), client)
    assert (repository.gguf_file, len(repository.weight_files)) == (first.name, 3)
    assert repository.config["vocab_size"] == 320 and repository.config["tie_word_embeddings"] is False


def test_a_shard_of_another_model_is_refused_before_the_download(
    fake: fake_hub.FakeHub, sharded: fake_hub.Repo, look_up: LookUp, client: Hub
) -> None:
    shards = sorted((sharded.folder / "Q8").iterdir())
    shards[1].write_bytes(shards[2].read_bytes())
    with pytest.raises(Refused) as caught:
        with_gguf_config(look_up("acme/parts", allowed=AllowedFiles(gguf_file="Q8_0")), client)
    assert "00002-of-00003.gguf, which says that it is part 3 of 3" in caught.value.finding.have


@pytest.mark.parametrize(("tied", "more"), [(True, 16), (False, 16), (True, None), (True, 9000)])
def test_if_the_header_is_too_long_tied_weights_follow_from_the_hubs_parameter_count(
    fake: fake_hub.FakeHub, tmp_path: Path, look_up: LookUp, client: Hub, monkeypatch: pytest.MonkeyPatch,
    tied: bool, more: int | None,
) -> None:  # fmt: skip
    """Tied weights show only after the vocabulary. A file may have slightly more values than the model; if
    the count fits neither case, the embedding is assumed not to be tied.
    """
    folder = tiny.llama(tmp_path / "whole", tie_word_embeddings=tied)
    (tmp_path / "packed").mkdir()
    write(folder, tmp_path / "packed" / "tiny.gguf")
    values = sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    fake.repos["acme/long"] = fake_hub.Repo(tmp_path / "packed", values=0 if more is None else values + more)
    monkeypatch.setattr("hub.weight_headers.gguf.MAX_BYTES", 1024)
    repository = with_gguf_config(look_up("acme/long"), client)
    assert repository.config["tie_word_embeddings"] is (tied and more == 16)
