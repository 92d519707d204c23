"""GGUF files: chosen, looked into, planned from their heads, fetched alone."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoConfig

from checks import every
from checks.fetch import fetch
from checks.finding import Finding, Refused
from checks.heads.gguf import by_heads
from checks.machine import Machine
from checks.measure.skeleton import nbytes
from checks.plan import Plan
from checks.source.forms import Forms, weights_of
from checks.source.gguf import config
from checks.source.hub import Hub
from checks.source.repository import Repository
from inference.model.gguf.head import NoGguf, head
from inference.model.gguf.parts import paths
from inference.model.load import load
from tests import hub, tiny
from tests.gguf_files import tiny_gguf, write

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]
SIZES = {"a-Q4_K_M.gguf": 5 * 10**9, "a-Q8_0.gguf": 9 * 10**9, "mmproj-a.gguf": 10**9, "README.md": 5}

PARTS = {"a-Q8-00001-of-00002.gguf": 3 * 10**9, "a-Q8-00002-of-00002.gguf": 10**9}


def part(path: Path) -> Callable[[int, int], bytes]:
    data = path.read_bytes()
    return lambda start, stop: data[start:stop]


@pytest.fixture
def several(fake: hub.Hub, tmp_path: Path) -> hub.Repo:
    """acme/packed: a model in two GGUF files, and no config.json."""
    path = tiny_gguf(tmp_path / "packed")
    path.with_name("tiny-Q4_0.gguf").write_bytes(path.read_bytes())
    path.with_name("README.md").write_text("two sizes")
    fake.repos["acme/packed"] = hub.Repo(path.parent)
    return fake.repos["acme/packed"]


def refusal(sizes: dict[str, int], asked: str = "") -> Finding:
    with pytest.raises(Refused) as caught:
        weights_of(sizes, None, Forms(gguf=asked))
    return caught.value.finding


@pytest.mark.parametrize("asked", ["a-Q8_0.gguf", "Q8_0", "q8"])
def test_a_file_is_chosen_by_its_name_or_enough_of_it(asked: str) -> None:
    assert weights_of(SIZES, None, Forms(gguf=asked)) == {"a-Q8_0.gguf"}


def test_of_several_one_must_be_chosen_and_their_sizes_are_told() -> None:
    finding = refusal(SIZES)
    assert finding.have == "a-Q4_K_M.gguf (5.0 GB), a-Q8_0.gguf (9.0 GB)"
    assert finding.mend == 'GGUF_FILE = "a-Q4_K_M.gguf", or another of them'


def test_what_no_file_is_called_is_refused_with_those_there_are() -> None:
    assert refusal(SIZES, "Q5").have == "a-Q4_K_M.gguf (5.0 GB), a-Q8_0.gguf (9.0 GB)"


def test_the_only_one_needs_no_choice() -> None:
    assert weights_of({"a.gguf": 1, "mmproj.gguf": 1}, None, Forms()) == {"a.gguf"}


@pytest.mark.parametrize("asked", ["", "Q8", "a-Q8-00001-of-00002.gguf", "a-Q8-00002-of-00002.gguf"])
def test_one_in_parts_is_all_of_them(asked: str) -> None:
    assert weights_of(PARTS, None, Forms(gguf=asked)) == set(PARTS)


def test_parts_are_told_as_one() -> None:
    finding = refusal(PARTS | {"a-Q4.gguf": 2 * 10**9})
    assert finding.have == "a-Q4.gguf (2.0 GB), a-Q8-00001-of-00002.gguf (4.0 GB)"


def test_a_part_that_is_missing_is_named() -> None:
    finding = refusal({"a-00001-of-00003.gguf": 1, "a-00003-of-00003.gguf": 1})
    assert (finding.need, finding.have) == ("3 parts", "2")
    assert finding.mend.startswith("a-00002-of-00003.gguf is missing")


def test_safetensors_are_better_where_nothing_is_chosen() -> None:
    sizes = SIZES | {"model.safetensors": 10}
    assert weights_of(sizes, None, Forms()) == {"model.safetensors"}
    assert weights_of(sizes, None, Forms(gguf="Q8")) == {"a-Q8_0.gguf"}


def test_its_config_is_what_transformers_reads_of_the_whole_file(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    told = config(head(part(path), size, size), size)
    whole = AutoConfig.from_pretrained(path.parent, gguf_file=path.name).to_dict()
    assert told == {name: value for name, value in whole.items() if name in told}
    assert told["vocab_size"] == 320 and told["tie_word_embeddings"] is False


def test_the_beginning_of_its_head_is_enough(tmp_path: Path) -> None:
    """What stands before the vocabulary's end: the table of tensors is not reached."""
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    little, all_of_it = (head(part(path), size, most, step=256) for most in (1024, size))
    assert little.tensors is None and all_of_it.tensors and len(all_of_it.tensors) == 21
    assert config(little, size) == config(all_of_it, size)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no such thing" * 9])
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes, look_up: LookUp, client: Hub) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(NoGguf):
        head(part(tmp_path / "x.gguf"), len(content), len(content))
    with pytest.raises(Refused) as caught:
        by_heads(look_up(str(tmp_path / "x.gguf")), client)
    assert "GGUF_FILE" in caught.value.finding.mend


def test_a_file_that_is_shorter_than_it_should_be_ends_within_its_head(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(NoGguf, match="ends within its head"):
        head(part(path), size, size)


def test_on_the_hub_it_is_planned_from_its_head_and_fetched_alone(
    fake: hub.Hub, several: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    found = look_up("acme/packed", forms=Forms(gguf="Q8_0"))
    plan = planned(by_heads(found, client), dtype="bfloat16")
    assert [finding for finding in every.run(plan, machine) if not finding.ok] == []
    folder = fetch(plan.repository, client)
    assert not (folder / "tiny-Q4_0.gguf").exists()
    model = load(folder / found.gguf, dtype="bfloat16", device="cpu", trust_remote_code=False).model
    assert plan.measure and plan.measure.weights == nbytes((*model.parameters(), *model.buffers()))


def test_fetched_it_is_found_offline(fake: hub.Hub, several: hub.Repo, look_up: LookUp, client: Hub) -> None:
    fetch(by_heads(look_up("acme/packed", forms=Forms(gguf="Q8_0")), client), client)
    fake.requests.clear()
    found = by_heads(look_up("acme/packed", forms=Forms(gguf="Q8_0"), offline=True), client)
    assert (found.gguf, found.config["model_type"], fake.requests) == ("tiny-Q8_0.gguf", "llama", [])


@pytest.fixture
def in_parts(fake: hub.Hub, tmp_path: Path) -> hub.Repo:
    """acme/parts: a model in three GGUF files in a folder of their own, and one in a single file."""
    first = tiny_gguf(tmp_path / "parts" / "Q8", most=8)
    write(tmp_path / "parts" / "Q8-whole", first.parent.parent / "tiny-F16.gguf")
    fake.repos["acme/parts"] = hub.Repo(first.parent.parent)
    return fake.repos["acme/parts"]


def gguf_files(requests: Iterable[hub.Request]) -> list[str]:
    return [request.what.rpartition("/")[2] for request in requests if ".gguf" in request.what]


def test_in_parts_it_is_planned_from_all_heads_and_fetched_whole(
    fake: hub.Hub, in_parts: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    found = look_up("acme/parts", forms=Forms(gguf="Q8_0"))
    fake.requests.clear()
    plan = planned(by_heads(found, client), dtype="bfloat16")
    assert sorted(gguf_files(fake.requests)) == [
        f"tiny-Q8_0-{number:05}-of-00003.gguf" for number in (1, 2, 3)
    ]
    sizes = [path.stat().st_size for path in (in_parts.folder / "Q8").iterdir()]
    assert [finding for finding in every.run(plan, machine) if not finding.ok] == []
    assert plan.repository.weights == sum(sizes) and plan.repository.to_fetch >= sum(sizes)
    folder = fetch(plan.repository, client)
    assert len(list((folder / "Q8").iterdir())) == 3 and not (folder / "tiny-F16.gguf").exists()
    model = load(folder / found.gguf, dtype="bfloat16", device="cpu", trust_remote_code=False).model
    assert plan.measure and plan.measure.weights == nbytes((*model.parameters(), *model.buffers()))


def test_in_parts_it_is_found_offline(
    fake: hub.Hub, in_parts: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    folder = fetch(by_heads(look_up("acme/parts", forms=Forms(gguf="Q8_0")), client), client)
    fake.requests.clear()
    found = by_heads(look_up("acme/parts", forms=Forms(gguf="Q8_0"), offline=True), client)
    assert (found.gguf, len(found.held), fake.requests) == ("Q8/tiny-Q8_0-00001-of-00003.gguf", 3, [])
    (folder / found.held[1].name).unlink()
    with pytest.raises(Refused, match=r"tiny-Q8_0-00002-of-00003\.gguf is missing"):
        look_up("acme/parts", forms=Forms(gguf="Q8_0"), offline=True)


@pytest.mark.parametrize("part", [0, 1])
def test_any_part_may_be_named_by_its_path(tmp_path: Path, look_up: LookUp, client: Hub, part: int) -> None:
    first = tiny_gguf(tmp_path / "Q8", most=8)
    found = by_heads(look_up(str(paths(first)[part])), client)
    assert (found.gguf, len(found.held)) == (first.name, 3)
    assert found.config["vocab_size"] == 320 and found.config["tie_word_embeddings"] is False


def test_a_part_of_another_model_is_refused_before_the_download(
    fake: hub.Hub, in_parts: hub.Repo, look_up: LookUp, client: Hub
) -> None:
    parts = sorted((in_parts.folder / "Q8").iterdir())
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(Refused) as caught:
        by_heads(look_up("acme/parts", forms=Forms(gguf="Q8_0")), client)
    assert "00002-of-00003.gguf, which says that it is part 3 of 3" in caught.value.finding.have


@pytest.mark.parametrize(("tied", "more"), [(True, 16), (False, 16), (True, None), (True, 9000)])
def test_where_its_head_is_too_long_the_hub_has_counted_its_values(
    fake: hub.Hub, tmp_path: Path, look_up: LookUp, client: Hub, monkeypatch: pytest.MonkeyPatch,
    tied: bool, more: int | None,
) -> None:  # fmt: skip
    """Whether the embedding is the head stands behind the vocabulary. A file may hold a little more than the
    model; what is neither is taken for the larger."""
    whole = tiny.llama(tmp_path / "whole", tie_word_embeddings=tied)
    (tmp_path / "packed").mkdir()
    write(whole, tmp_path / "packed" / "tiny.gguf")
    values = sum(weight.numel() for weight in load_file(whole / "model.safetensors").values())
    fake.repos["acme/long"] = hub.Repo(tmp_path / "packed", values=0 if more is None else values + more)
    monkeypatch.setattr("checks.heads.gguf.COST", 1024)
    found = by_heads(look_up("acme/long"), client)
    assert found.config["tie_word_embeddings"] is (tied and more == 16)
