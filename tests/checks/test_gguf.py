"""GGUF files: chosen, looked into, planned from their heads, fetched alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoConfig

import checks
from checks.fetch import fetch
from checks.finding import Finding, Refused
from checks.headers import headed
from checks.machine import Machine
from checks.measure.skeleton import nbytes
from checks.plan import Plan
from checks.source.forms import Forms, weights_of
from checks.source.gguf import config, head
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import Unread
from inference.model.load import load
from tests import hub
from tests.gguf_files import tiny_gguf

LookUp = Callable[..., Repository]
Planner = Callable[..., Plan]
SIZES = {"a-Q4_K_M.gguf": 5 * 10**9, "a-Q8_0.gguf": 9 * 10**9, "mmproj-a.gguf": 10**9, "README.md": 5}


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


def test_a_part_of_one_is_refused() -> None:
    assert "in several" in refusal({"a-00001-of-00002.gguf": 1, "a-00002-of-00002.gguf": 1}, "00001").have


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


def test_the_beginning_of_its_head_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before the vocabulary's end: the table of tensors is not reached."""
    monkeypatch.setattr("checks.source.gguf.STEP", 256)
    path = tiny_gguf(tmp_path / "packed")
    size = path.stat().st_size
    little, all_of_it = (head(part(path), size, most) for most in (1024, size))
    assert little.tensors is None and all_of_it.tensors and len(all_of_it.tensors) == 21
    assert config(little, size) == config(all_of_it, size)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no such thing" * 9])
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes, look_up: LookUp, client: Hub) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(Unread):
        head(part(tmp_path / "x.gguf"), len(content), len(content))
    with pytest.raises(Refused) as caught:
        headed(look_up(str(tmp_path / "x.gguf")), client)
    assert "GGUF_FILE" in caught.value.finding.mend


def test_on_the_hub_it_is_planned_from_its_head_and_fetched_alone(
    fake: hub.Hub, several: hub.Repo, look_up: LookUp, client: Hub, planned: Planner, machine: Machine
) -> None:
    found = look_up("acme/packed", forms=Forms(gguf="Q8_0"))
    plan = planned(headed(found, client), dtype="bfloat16")
    assert [finding for finding in checks.run(plan, machine) if not finding.ok] == []
    folder = fetch(plan.repository, client)
    assert not (folder / "tiny-Q4_0.gguf").exists()
    model = load(folder / found.gguf, dtype="bfloat16", device="cpu", trust_remote_code=False).model
    assert plan.measure and plan.measure.weights == nbytes((*model.parameters(), *model.buffers()))


def test_fetched_it_is_found_offline(fake: hub.Hub, several: hub.Repo, look_up: LookUp, client: Hub) -> None:
    fetch(headed(look_up("acme/packed", forms=Forms(gguf="Q8_0")), client), client)
    fake.requests.clear()
    found = headed(look_up("acme/packed", forms=Forms(gguf="Q8_0"), offline=True), client)
    assert (found.gguf, found.config["model_type"], fake.requests) == ("tiny-Q8_0.gguf", "llama", [])
