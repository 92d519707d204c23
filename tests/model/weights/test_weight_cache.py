"""A second load maps the packed weights of the first: the same bits, nothing packed, nothing written to."""

import atexit
import dataclasses
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from inference.model.fused import verify
from inference.model.load_recipe import make_recipe
from inference.model.quantization import replace
from inference.model.quantization.replace import packed_weights
from inference.model.reference import Reference
from inference.model.runner_selection import benchmark
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.weights import weight_cache
from inference.model.weights.mapped_model import mapped_file
from inference.native.packed_matrix import PackedMatrix
from inference.native.weight_cache.file import map_weight_file
from inference.native.weight_cache.source_files import cached_files
from settings.groups import ModelSettings
from tests.model.weights import weight_caches
from tests.model.weights.weight_caches import ENGINE, gguf_llama, gpt2_with_conv1d, tied_llama
from tests.tiny_models import families, mxfp4_files, tiny

IDS = torch.tensor([[5, 6, 7, 8, 9]])

KEEP = weight_cache.WeightCache.keep


@pytest.fixture(autouse=True)
def keep_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weight_caches.keep_small_models(monkeypatch)
    weight_caches.wait_for_writers(monkeypatch)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "weights"


def load(
    source: Path, cache: Path, dtype: str = "bfloat16", quantize: str = "none", runner: str = "fused"
) -> tuple[Any, SelectedRunner]:
    settings = ModelSettings(device="cpu", dtype=dtype, quantize=quantize, weight_cache_dir=str(cache))
    loaded, selected = make_recipe(source, settings, dataclasses.replace(ENGINE, runner=runner)).load_model()
    return loaded.model, selected


@torch.inference_mode()
def logits(model: Any) -> Tensor:
    decoder_input = {"decoder_input_ids": IDS} if model.config.is_encoder_decoder else {}
    return model(IDS, **decoder_input).logits


def experts_source(folder: Path) -> Path:
    model = families.tiny("mixtral").to(torch.bfloat16)
    model.save_pretrained(folder / "experts")
    tiny.tokenizer().save_pretrained(folder / "experts")
    return folder / "experts"


def mxfp4_source(folder: Path) -> Path:
    mxfp4_files.in_four_bits(folder / "oss")
    return folder / "oss"


def untied_source(folder: Path) -> Path:
    """A T5 with a head of its own, which transformers ties until it has read the files."""
    model = families.tiny("t5", tie_word_embeddings=False).to(torch.bfloat16)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.flip(0))
    model.all_tied_weights_keys.pop("lm_head.weight")
    model.save_pretrained(folder / "t5")
    tiny.tokenizer().save_pretrained(folder / "t5")
    return folder / "t5"


CASES = {
    "bfloat16": (tied_llama, "bfloat16", "none", "fused"),
    "float32": (tied_llama, "float32", "none", "fused"),
    "int8": (tied_llama, "bfloat16", "int8", "fused"),
    "int4": (tied_llama, "bfloat16", "int4", "fused"),
    "q4_k_m": (tied_llama, "bfloat16", "q4_k_m", "fused"),
    "gguf": (gguf_llama, "bfloat16", "none", "fused"),
    "experts": (experts_source, "bfloat16", "int8", "paged"),
    "mxfp4": (mxfp4_source, "bfloat16", "none", "paged"),
    "head of its own": (untied_source, "bfloat16", "int8", "auto"),
    "conv1d": (gpt2_with_conv1d, "bfloat16", "int8", "paged"),
}


@pytest.mark.parametrize(("case", "computed"), [("bfloat16", [8, 0, 0]), ("int8", [8, 8, 0])])
def test_the_reference_logits_of_mapped_weights_are_remembered(
    case: str, computed: list[int], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded weights have logits of their own, which the first load that maps them computes."""
    make_source, *options = CASES[case]
    source, calls, compute = make_source(tmp_path), list[int](), Reference.compute_logits

    def counted(reference: Reference, row: int, count: int) -> Tensor:
        calls.append(mapped_file(reference.model) is not None or not packed_weights(reference.model))
        return compute(reference, row, count)

    monkeypatch.setattr(Reference, "compute_logits", counted)
    for expected in computed:
        calls.clear()
        load(source, cache, *options)
        assert sum(calls) == expected


@pytest.mark.parametrize("case", CASES)
def test_a_second_load_maps_the_same_bits_and_packs_nothing(
    case: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_source, *options = CASES[case]
    source = make_source(tmp_path)
    first, first_selected = load(source, cache, *options)
    (path,) = cached_files(cache)
    content = hashlib.sha256(path.read_bytes()).digest()

    def refuse(*_: object) -> None:
        raise AssertionError("a weight was packed")

    monkeypatch.setattr(PackedMatrix, "allocate", refuse)
    second, second_selected = load(source, cache, *options)
    assert mapped_file(first) is None and mapped_file(second) is not None
    assert torch.equal(logits(first), logits(second))
    assert second_selected.quant_error == first_selected.quant_error
    assert second.generation_config.eos_token_id == first.generation_config.eos_token_id
    assert hashlib.sha256(path.read_bytes()).digest() == content
    assert cached_files(cache) == [path]


def test_each_form_has_its_file(tmp_path: Path, cache: Path) -> None:
    source = tied_llama(tmp_path)
    for dtype, quantize in (("bfloat16", "none"), ("bfloat16", "int4"), ("float32", "none")):
        load(source, cache, dtype, quantize)
    assert len(cached_files(cache)) == 3


def change_weights(source: Path) -> None:
    weights = source / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-4:] = bytes(4)
    weights.write_bytes(content)


def change_config(source: Path) -> None:
    tiny.edit(source / "config.json", rms_norm_eps=1e-3)


@pytest.mark.parametrize("change", [change_weights, change_config])
def test_a_changed_model_is_packed_again(tmp_path: Path, cache: Path, change: Callable[[Path], None]) -> None:
    source = tied_llama(tmp_path)
    load(source, cache)
    change(source)
    model, _ = load(source, cache)
    assert mapped_file(model) is None
    assert mapped_file(load(source, cache)[0]) is not None
    assert len(cached_files(cache)) == 1, "the file of the former weights is removed"


def test_a_damaged_file_is_packed_again_with_one_line_in_the_log(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tied_llama(tmp_path)
    right = logits(load(source, cache)[0])
    (path,) = cached_files(cache)
    path.write_bytes(path.read_bytes()[:-100])
    with caplog.at_level(logging.WARNING):
        model, _ = load(source, cache)
    assert [record.getMessage() for record in caplog.records if "again" in record.getMessage()]
    assert len(caplog.records) == 1
    assert mapped_file(model) is None and torch.equal(logits(model), right)
    assert mapped_file(load(source, cache)[0]) is not None


def test_a_file_without_a_weight_of_the_model_is_packed_again(tmp_path: Path, cache: Path) -> None:
    source = tied_llama(tmp_path)
    load(source, cache)
    (path,) = cached_files(cache)
    file = map_weight_file(path)
    tensors = file.read_tensors()
    del tensors["model.norm.weight"]
    weight_cache.write_weight_file(path, file.about, tensors, {})
    assert mapped_file(load(source, cache)[0]) is None


def test_nothing_is_written_where_the_disk_is_short(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(weight_cache, "free_disk_bytes", lambda _: weight_cache.SPARE_BYTES)
    with caplog.at_level(logging.INFO):
        load(tied_llama(tmp_path), cache)
    assert "packed weights are not kept for the next start" in caplog.text
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file")
    model, _ = load(tied_llama(tmp_path), cache)
    assert mapped_file(model) is None


def test_small_models_and_switched_off_caches_are_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tied_llama(tmp_path)
    load(source, Path("off"))
    monkeypatch.undo()
    load(source, cache)
    assert not cache.exists() and not Path("off").exists()


def test_the_values_of_mapped_weights_are_those_of_the_files(tmp_path: Path, cache: Path) -> None:
    source = tied_llama(tmp_path)
    load(source, cache)
    model, selected = load(source, cache)
    plain = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    weights = dict(plain.named_parameters())
    for weight, owners in replace.packed_weights(model):
        name = next(name for name, each in model.named_parameters() if each is weight)
        assert torch.equal(weight.values(), weights[name]), owners
    assert selected.runner_kind == "fused"
    assert json.loads((source / "config.json").read_text())["tie_word_embeddings"]


def test_a_third_load_repeats_one_step_of_the_proof(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second load maps the weights and proves the runner; the third knows the result of that proof."""
    source, steps, ends = tied_llama(tmp_path), list[int | None](), list[int]()
    error_of, context_end_error = Reference.error_of, verify.context_end_error

    def counted(reference: Reference, runner: Any, num_steps: int | None = None) -> float:
        steps.append(num_steps)
        return error_of(reference, runner, num_steps)

    monkeypatch.setattr(Reference, "error_of", counted)
    monkeypatch.setattr(verify, "context_end_error", lambda *args: ends.append(1) or context_end_error(*args))
    errors = [load(source, cache)[1].error for _ in range(3)]
    assert steps[-3:] == [None, None, 1] and len(ends) == 2
    assert errors[1] == errors[2]
    engine = dataclasses.replace(ENGINE, context=128)
    monkeypatch.setattr("tests.model.weights.test_weight_cache.ENGINE", engine)
    load(source, cache)
    assert len(ends) == 3, "another end of the context is computed"


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_a_second_load_times_no_runners(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, quantize: str
) -> None:
    source, timed = tied_llama(tmp_path), list[int]()
    monkeypatch.setattr(benchmark, "step_s", lambda *args: 0.0)
    monkeypatch.setattr(benchmark, "speed_ratio", lambda *args: timed.append(1) or 2.0)
    _, first = load(source, cache, quantize=quantize, runner="auto")
    assert first.runner_kind == "fused" and timed
    timed.clear()
    model, second = load(source, cache, quantize=quantize, runner="auto")
    assert mapped_file(model) and second.runner_kind == "fused" and not timed


def test_a_process_that_ends_waits_for_its_writer(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is unloaded within seconds of its first load is mapped by the next one."""
    at_exit, write = list[Callable[[], None]](), weight_cache.write_weight_file
    monkeypatch.setattr(atexit, "register", lambda call, *args: at_exit.append(partial(call, *args)))
    monkeypatch.setattr(weight_cache.WeightCache, "keep", KEEP)
    may_write = threading.Event()

    def write_slowly(*args: Any) -> None:
        may_write.wait()
        time.sleep(0.2)
        write(*args)

    monkeypatch.setattr(weight_cache, "write_weight_file", write_slowly)
    load(tied_llama(tmp_path), cache)
    assert not cached_files(cache)
    may_write.set()
    at_exit[-1]()
    assert len(cached_files(cache)) == 1
