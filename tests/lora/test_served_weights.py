"""Adapters over quantized weights, in DETERMINISTIC, and over weights that several ranks share."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel

from inference.engine.step_output import StepOutput
from inference.errors import BadRequest
from inference.factory import create_adapter_registry, open_engine
from inference.lora.build import build_weights
from inference.lora.check import check_adapter
from inference.model.lora.verify import trial_batch
from inference.model.lora.weights import AdapterWeights
from inference.model.quantization.packed_tensor import PackedTensor
from inference.model.reference import ordinary_token_ids
from settings.groups import EngineSettings, ModelSettings
from tests.engine.engine_answers import AnswerCollector
from tests.engine.generation_requests import make_request
from tests.lora.adapted_engine import GREEDY, AdaptedEngine, prompts
from tests.lora.peft_adapters import NEW, save_adapter
from tests.tiny_models import tiny as tiny_folder
from tests.tiny_models.families import needs_fused, tiny

WIDE = {"hidden_size": 64, "intermediate_size": 128}
MAX_ERROR = 0.25  # standard deviations of the logits: native products round activations to 8 bits


def dequantized(model: PreTrainedModel, family: str) -> PreTrainedModel:
    """A plain model with the values of the weights that `model` serves."""
    plain = tiny(family, **WIDE)
    weights = dict(model.named_parameters())
    for name, values in plain.named_parameters():
        weight = weights[name]
        values.data = (weight.values() if isinstance(weight, PackedTensor) else weight).float().clone()
    return plain


@needs_fused
@pytest.mark.parametrize(
    ("family", "kind", "config"),
    [("llama", "fused", {}), ("llama", "fused", {"use_dora": True}), ("mixtral", "paged", {})],
    ids=["LoRA", "DoRA", "experts"],
)
@pytest.mark.parametrize("quantize", ["int8", "int4", "q4_k_m"])
def test_an_adapter_over_quantized_weights_computes_as_over_the_dequantized(
    tmp_path: Path, quantize: str, family: str, kind: str, config: dict[str, bool]
) -> None:
    folder = save_adapter(tmp_path, family, 1, WIDE, **config)
    served = AdaptedEngine(tiny(family, **WIDE), (kind,), quantize=quantize)
    served.load(folder, 1)
    token_ids = ordinary_token_ids(served.model)[:8]
    batch = trial_batch(served.runner.runner, token_ids)
    base = served.runner.forward(batch).float().clone()
    batch.adapter_ids.append(1)
    logits = served.runner.forward(batch).float()
    plain = dequantized(served.model, family)
    with torch.inference_mode():
        plain_base = plain(torch.tensor([token_ids])).logits[0]
        expected = PeftModel.from_pretrained(plain, folder)(torch.tensor([token_ids])).logits[0]
    error, base_error = (
        (ours - theirs).abs().max() / theirs.std()
        for ours, theirs in ((logits, expected), (base, plain_base))
    )
    assert error <= max(MAX_ERROR, 2 * base_error), f"without the adapter: {base_error}"
    assert (expected - plain_base).abs().max() / expected.std() > 1, "the adapter changes the logits"


def test_modules_in_float32_have_pairs_in_float32(tmp_path: Path) -> None:
    """T5 keeps some of its layers in float32 in every dtype."""
    model = tiny("t5").bfloat16()
    for name, module in model.named_modules():
        if name.endswith(".wo"):
            module.float()
    folder = save_adapter(tmp_path, "t5", 1, target_modules=["q", "wo"])
    weights = run_to_end(build_weights(model, check_adapter(model, folder, 8), 1))
    dtypes = {name.rpartition(".")[2]: delta.a.dtype for name, delta in weights.deltas.items()}
    assert dtypes == {"q": torch.bfloat16, "wo": torch.float32}


def run_to_end(work: Generator[None, None, AdapterWeights]) -> AdapterWeights:
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


@needs_fused
def test_in_deterministic_no_row_changes_a_bit_of_a_row_with_an_adapter(tmp_path: Path) -> None:
    served = AdaptedEngine(tiny("llama").bfloat16(), ("fused",), deterministic=True)
    for number in (1, 2):
        served.load(save_adapter(tmp_path / str(number), "llama", number), number)
    alone = []
    for prompt in prompts():
        alone.append(logprobs_of(served, prompt, 1))
        served.run()
    together = [[logprobs_of(served, prompt, number) for number in (0, 1, 2)] for prompt in prompts()]
    served.run()
    assert [each[1] for each in together] == alone and all(len(each) == NEW for each in alone)


def logprobs_of(served: AdaptedEngine, prompt: Sequence[int], number: int) -> list[float]:
    """Submit the prompt; the list fills with the logprobs of its tokens."""
    logprobs: list[float] = []

    class LogprobSink:
        def put(self, output: StepOutput) -> None:
            logprobs.extend(output.logprobs)

    request = make_request(prompt, max_tokens=NEW, sampling=GREEDY, adapter_number=number, logprobs=0)
    served.engine.submit([request], [LogprobSink()])
    return logprobs


@needs_fused
def test_deterministic_refuses_what_is_not_computed_row_by_row(tmp_path: Path) -> None:
    served = AdaptedEngine(tiny("llama"), ("fused",), deterministic=True)
    with pytest.raises(BadRequest, match="DETERMINISTIC"):
        served.load(save_adapter(tmp_path, "llama", 1, modules_to_save=["norm"]), 1)
    assert not served.runner.adapters


def answers_of(folder: Path, adapter: Path, num_shard: int) -> list[Sequence[int]]:
    """The answers of the base and of the adapter, from a model that several ranks share."""
    model_settings = ModelSettings(device="cpu", dtype="float32", num_shard=num_shard)
    limits = {"kv_memory_bytes": 1 << 24, "max_batch_tokens": 32, "max_queued_tokens": 1000}
    loaded = open_engine(folder, model_settings, EngineSettings(context=64, max_sequences=4, **limits))
    loaded.engine.start(loaded.engine_thread)
    try:
        card = create_adapter_registry(loaded).load("poet", adapter, "poet")
        collectors = [AnswerCollector() for _ in range(2)]
        requests = [
            make_request((5, 9, 3), max_tokens=NEW, sampling=GREEDY, adapter_number=number)
            for number in (0, card.number)
        ]
        loaded.engine.submit(requests, collectors)
        loaded.engine_thread.run(loaded.engine.run_until_idle)
        return [collector.ids for collector in collectors]
    finally:
        loaded.engine.stop()
        loaded.executor.close()


@pytest.mark.slow
def test_ranks_that_share_a_model_share_its_adapters(tmp_path: Path) -> None:
    """What ranks serve of peft's features: test_shared_adapters."""
    folder = tiny_folder.llama(tmp_path / "model")
    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), config)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    adapted.save_pretrained(tmp_path / "adapter")
    single = answers_of(folder, tmp_path / "adapter", 1)
    assert answers_of(folder, tmp_path / "adapter", 2) == single
    assert single[0] != single[1]
