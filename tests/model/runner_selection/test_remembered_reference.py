"""The first load of a model computes its reference logits; later loads of the same read them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from inference.model.quantization.quantize import use_packed_weights
from inference.model.reference import ROWS, Reference
from inference.model.runner_selection import remembered_reference as remembered
from inference.model.runner_selection.remembered_reference import FOLDER, MAX_FILES, remembered_reference
from inference.model.runner_selection.requirements import RunnerLimits
from inference.model.runner_selection.select_runner import select_runner
from inference.process.cache_folder import cache_folder
from tests.tiny_models import tiny

EXACT = 1e-3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, while none is remembered."""
    shutil.rmtree(cache_folder() / FOLDER, ignore_errors=True)
    return tiny.llama(tmp_path / "model")


def load(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def count_forwards(model: PreTrainedModel, work: Callable[[], object]) -> int:
    calls: list[int] = []
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    work()
    handle.remove()
    return len(calls)


def forwards_of(folder: Path, dtype: torch.dtype = torch.float32) -> int:
    """Forward passes for the reference of a new load."""
    model = load(folder, dtype)
    return count_forwards(model, lambda: remembered_reference(folder, model))


def touch_weights(folder: Path) -> None:
    os.utime(folder / "model.safetensors", (1, 1))


def edit_config(folder: Path) -> None:
    tiny.edit(folder / "config.json", rms_norm_eps=1e-3)


def test_a_second_load_computes_no_forward_pass_and_has_the_same_reference(folder: Path) -> None:
    first = remembered_reference(folder, load(folder))
    model = load(folder)
    assert count_forwards(model, lambda: remembered_reference(folder, model)) == 0
    second = remembered_reference(folder, model)
    assert all(torch.equal(a, b) for a, b in zip(first.logits, second.logits, strict=True))
    assert (first.std, first.rounding_noise) == (second.std, second.rounding_noise)


@pytest.mark.parametrize("change", [touch_weights, edit_config])
def test_other_files_are_computed(folder: Path, change: Callable[[Path], None]) -> None:
    assert forwards_of(folder) == 2 * ROWS
    change(folder)
    assert forwards_of(folder) == 2 * ROWS
    assert forwards_of(folder) == 0


def test_another_dtype_is_computed(folder: Path) -> None:
    assert [forwards_of(folder, dtype) for dtype in (torch.float32, torch.bfloat16)] == [2 * ROWS] * 2


def test_other_rotary_frequencies_are_computed(folder: Path) -> None:
    forwards_of(folder)
    model = load(folder)
    model.model.rotary_emb.inv_freq *= 2
    assert count_forwards(model, lambda: remembered_reference(folder, model)) == 2 * ROWS


def test_a_damaged_file_is_computed(folder: Path) -> None:
    forwards_of(folder)
    for path in (cache_folder() / FOLDER).iterdir():
        path.write_bytes(b"damaged")
    assert forwards_of(folder) == 2 * ROWS


def test_logits_with_a_changed_bit_are_computed_again(folder: Path) -> None:
    """Else a runner that computes what the model computes would be refused at every start."""
    forwards_of(folder)
    (path,) = (cache_folder() / FOLDER).iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 0x40]))
    assert forwards_of(folder) == 2 * ROWS


def test_the_last_models_are_remembered(folder: Path) -> None:
    for eps in range(MAX_FILES + 2):
        tiny.edit(folder / "config.json", rms_norm_eps=1e-4 * (eps + 1))
        forwards_of(folder)
    assert len(list((cache_folder() / FOLDER).iterdir())) == MAX_FILES
    assert forwards_of(folder) == 0


def test_a_model_with_packed_weights_is_computed(folder: Path) -> None:
    model = load(folder)
    assert use_packed_weights(model, Reference(model), EXACT, required=True)
    assert count_forwards(model, lambda: remembered_reference(folder, model)) == 2 * ROWS


def choices_path(folder: Path) -> Path:
    path = remembered_reference(folder, load(folder)).choices.path
    assert path is not None
    return path


CHANGES = {
    "processor": ("processor_name", lambda: "another processor"),
    "library": ("library_id", lambda: "another library"),
    "code": ("COMPUTING_CODE", ("inference/model",)),
}


@pytest.mark.parametrize(("name", "value"), CHANGES.values(), ids=CHANGES)
def test_a_choice_is_of_this_processor_and_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    path = choices_path(folder)
    assert choices_path(folder) == path
    monkeypatch.setattr(remembered, name, value)
    assert choices_path(folder) != path


def test_a_choice_is_of_as_many_threads(folder: Path) -> None:
    path, num_threads = choices_path(folder), torch.get_num_threads()
    torch.set_num_threads(num_threads + 1)
    try:
        assert choices_path(folder) != path
    finally:
        torch.set_num_threads(num_threads)


def test_runners_are_verified_with_the_remembered_logits(folder: Path) -> None:
    """A model whose weights changed behind the files' back is refused by the proof of its runners."""
    remembered_reference(folder, load(folder))
    model = load(folder)
    with torch.no_grad():
        model.lm_head.weight.mul_(-1)
    with pytest.raises(Exception, match="different logits"):
        select_runner(
            model,
            RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24),
            make_reference=lambda model: remembered_reference(folder, model),
        )
