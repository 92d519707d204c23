"""Adapters that cannot be served are refused by name: nothing has changed then, no file outside is read."""

import json
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from inference.errors import BadRequest
from inference.lora.build import build_weights
from inference.lora.check import check_adapter
from inference.lora.load import load_adapter
from inference.model.lora.runner import AdapterRunner
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.lora.peft_adapters import save_adapter
from tests.tiny_models.families import tiny

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    model = tiny("llama")
    runner = select_runner(
        model,
        RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(kinds=("paged",)),
    ).runner
    AdapterRunner(model, runner)
    return model


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_adapter(tmp_path_factory.mktemp("adapter"), "llama", 0, target_modules=["q_proj", "o_proj"])


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """An adapter that could be served, to be spoiled."""
    for name in (CONFIG, WEIGHTS):
        (tmp_path / name).write_bytes((template / name).read_bytes())
    return tmp_path


def load(model: PreTrainedModel, folder: Path) -> None:
    for _ in load_adapter(model, str(folder), 1, 8):
        pass


def config(**values: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def tensors(change_values: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def change(folder: Path) -> None:
        values = load_file(folder / WEIGHTS)
        change_values(values)
        save_file(values, folder / WEIGHTS)

    return change


def weights(data: bytes) -> Change:
    return lambda folder: (folder / WEIGHTS).unlink() or (folder / WEIGHTS).write_bytes(data)


def link(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("/etc/hostname")

    return change


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")


def fifo(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)


def huge_header() -> bytes:
    entry = {KEY: {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 4 * 10**18]}}
    header = json.dumps(entry).encode()
    return struct.pack("<Q", len(header)) + header


def sparse(folder: Path) -> None:
    """Weights of 1.6 TB, which take no place on the disk."""
    width = 10**11
    header = json.dumps(
        {KEY: {"dtype": "F32", "shape": [4, width], "data_offsets": [0, 16 * width]}}
    ).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 16 * width)


REFUSED: dict[str, tuple[Change, str]] = {
    "no config": (lambda folder: (folder / CONFIG).unlink(), "has no adapter_config.json"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "has no adapter_model.safetensors"),
    "pickle": (pickled, "has adapter_model.bin, which can run code"),
    "config is a link": (link(CONFIG), "adapter_config.json that is a link out of its folder"),
    "weights are a link": (link(WEIGHTS), "adapter_model.safetensors that is a link out of its folder"),
    "weights are a pipe": (fifo, "has no adapter_model.safetensors that is a file"),
    "large config": (
        lambda folder: (folder / CONFIG).write_bytes(b" " * (1 << 21)),
        "at most 1048576 are read",
    ),
    "deep config": (lambda folder: (folder / CONFIG).write_text("[" * 10**5), "cannot be read"),
    "config is a list": (lambda folder: (folder / CONFIG).write_text("[]"), "is not a JSON object"),
    "another kind": (config(peft_type="IA3"), "has peft_type 'IA3': only LORA is served"),
    "rank too large": (config(r=9), r"has r = 9: at most 8 is served; set MAX_LORA_RANK=9"),
    "enormous rank": (config(r=10**9), "has r = 1000000000: at most 8 is served"),
    "rank is text": (config(r="4"), "has r = '4'"),
    "rank is negative": (config(r=-1), "has r = -1"),
    "rank is another": (config(r=3), r"of shape \[4, 32\]: this model and r need \[3, 32\]"),
    "alpha is NaN": (config(lora_alpha=float("nan")), "lora_alpha = nan: it must be a finite number"),
    "pattern is a bomb": (config(alpha_pattern={"(a+)+$": 1}), r"'\(' is not supported"),
    "too many patterns": (
        config(rank_pattern={f"x{number}": 4 for number in range(2049)}),
        "too many names in rank_pattern: it may have 2048 patterns, it has 2049",
    ),
    "too many patterns that repeat": (
        config(alpha_pattern={f".*x{number}": 4 for number in range(33)}),
        "too many names in alpha_pattern: it may have 32 .*, it has 33",
    ),
    "operators of one pattern": (
        config(alpha_pattern={".*" * 33: 4}),
        r"in alpha_pattern: it may have 32 \*, \+ and \? in all patterns, it has 33",
    ),
    "alpha beyond a float": (config(lora_alpha=10**400), "lora_alpha = 1000.*…: it must be a finite number"),
    "alpha of a pattern beyond a float": (config(alpha_pattern={"q_proj": 10**400}), "finite number"),
    "rank of 400 digits": (config(r=10**400), "has r = 10{78}…: at most 8 is served; set MAX_LORA_RANK="),
    "a long option": (config(**{"k" * 5000: 1}), "has k{80} = 1, which is not served"),
    "DoRA without magnitudes": (config(use_dora=True), r"use_dora = true, but no .*_proj.lora_magnitude"),
    "magnitudes without DoRA": (
        tensors(lambda t: t.update({KEY.replace("A.weight", "magnitude_vector"): torch.ones(32)})),
        "use_dora = false, but a model.layers.0.self_attn.q_proj.lora_magnitude_vector",
    ),
    "pattern is long": (config(alpha_pattern={"a" * 501: 1}), "a pattern may have 500 characters"),
    "pattern is a list": (config(rank_pattern=[1]), "rank_pattern = .* it must be an object"),
    "pissa": (config(init_lora_weights="pissa_niter_4"), "path_initial_model_for_weight_conversion"),
    "alora": (config(alora_invocation_tokens=[1]), "has alora_invocation_tokens = "),
    "replicated layers": (config(layer_replication=[[0, 1]]), "has layer_replication = "),
    "an unknown option": (config(use_moonlight=True), "has use_moonlight = True, which is not served"),
    "tied weights": (config(ensure_weight_tying=True), "has ensure_weight_tying = True"),
    "an unknown tensor": (tensors(lambda t: t.update(extra=torch.ones(1))), "has extra, which is not served"),
    "a long name": (
        tensors(lambda t: t.update({"a." * 10**5 + "lora_A.weight": torch.ones(1)})),
        r"has a tensor named '(a\.)*…, which is no name of a parameter",
    ),
    "a name of two lines": (
        tensors(lambda t: t.update({"a\nb.lora_A.weight": torch.ones(1)})),
        r"has a tensor named 'a\\nb.lora_A.weight', which is no name",
    ),
    "another model": (
        tensors(lambda t: t.update({KEY.replace("layers.0", "layers.9"): torch.ones(4, 32)})),
        "layers.9.self_attn.q_proj",
    ),
    "half a pair": (tensors(lambda t: t.pop(KEY)), "but no model.layers.0.self_attn.q_proj.lora_A.weight"),
    "NaN": (tensors(lambda t: t[KEY].fill_(float("nan"))), f"NaN or infinite values in {KEY}"),
    "integers": (tensors(lambda t: t.update({KEY: t[KEY].int()})), f"has {KEY} in I32"),
    "no tensors": (tensors(lambda t: t.clear()), "has no weights"),
    "an empty file": (weights(b""), "weights that cannot be read"),
    "noise": (weights(b"\x80\x02" * 500), "at most 16000000 are read"),
    "a file larger than the memory": (sparse, "has .*lora_A.weight, but no .*lora_B.weight"),
    "a huge claim": (weights(huge_header()), "weights that cannot be read"),
    "queries that overflow": (
        tensors(lambda t: [v.fill_(1e38) for key, v in t.items() if "layers.0.self_attn.q_proj" in key]),
        "the outputs of model.layers.0.self_attn.q_proj with it are NaN or infinite",
    ),
    "tensors that overflow": (
        tensors(lambda t: [v.fill_(1e38) for key, v in t.items() if "o_proj" in key]),
        "NaN or infinite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_adapter_is_refused_by_name_and_nothing_changes(
    model: PreTrainedModel, folder: Path, case: str
) -> None:
    change, message = REFUSED[case]
    change(folder)
    with pytest.raises(BadRequest, match=message):
        load(model, folder)
    assert not model.adapter_runner.adapters and not model.adapter_runner.modules.forwards


EXPERTS = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


@pytest.mark.parametrize(
    ("family", "target", "change", "message"),
    [
        ("llama4_text", ["experts.down_proj"], {}, r"experts.down_proj of a Llama4TextExperts, which is not"),
        (
            "mixtral",
            EXPERTS,
            {"target_parameters": EXPERTS[:1]},
            r"2 parameters .* target_parameters names 1",
        ),
        ("mixtral", EXPERTS[:1], {"target_parameters": list(EXPERTS)}, r"1 parameters .* names 2"),
        (
            "mixtral",
            EXPERTS,
            {"target_parameters": "experts"},
            r"target_parameters 'experts': they must be a",
        ),
        ("mixtral", EXPERTS, {"target_parameters": None}, r"experts.base_layer, which this model does not"),
        (
            "mixtral",
            EXPERTS,
            {"rank_pattern": {"experts.gate_up_proj": 3}},
            r"of shape \[16, 32\]: this model and r need \[12, 32\]",
        ),
    ],
)
def test_pairs_on_parameters_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, family: str, target: Sequence[str], change: dict[str, Any], message: str
) -> None:
    folder = save_adapter(tmp_path, family, 0, target_modules=["q_proj"], target_parameters=list(target))
    config(**change)(folder)
    with pytest.raises(BadRequest, match=message):
        check_adapter(tiny(family), folder, 8)


def test_the_template_is_served(model: PreTrainedModel, folder: Path) -> None:
    load(model, folder)
    assert list(model.adapter_runner.adapters) == [1]
    model.adapter_runner.remove(1)


def test_an_adapter_whose_changes_are_all_zero_is_served(model: PreTrainedModel, folder: Path) -> None:
    tensors(lambda t: [v.zero_() for key, v in t.items() if "lora_B" in key])(folder)
    load(model, folder)
    model.adapter_runner.remove(1)


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("full")])
def test_memory_that_runs_out_while_an_adapter_is_tried_makes_it_no_bad_adapter(
    error: Exception, model: PreTrainedModel, folder: Path
) -> None:
    def run_out(*arguments: object) -> None:
        raise error

    hook = model.lm_head.register_forward_pre_hook(run_out)
    with pytest.raises(type(error)):
        load(model, folder)
    hook.remove()
    assert not model.adapter_runner.adapters
    load(model, folder)
    model.adapter_runner.remove(1)


@pytest.mark.system("posix")
def test_files_of_the_hubs_cache_may_be_links_to_its_blobs(model: PreTrainedModel, folder: Path) -> None:
    snapshot, blobs = folder / "snapshots" / "abc", folder / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for name in (CONFIG, WEIGHTS):
        (folder / name).rename(blobs / name)
        (snapshot / name).symlink_to(f"../../blobs/{name}")
    load(model, snapshot)
    model.adapter_runner.remove(1)


def test_an_adapter_is_read_in_pieces_between_steps(model: PreTrainedModel, folder: Path) -> None:
    checked = check_adapter(model, folder, 8)
    assert len(list(build_weights(model, checked, 1, piece_bytes=1))) == 4, "one for each module"
    assert not list(build_weights(model, checked, 1)), "the adapter is smaller than a piece"
