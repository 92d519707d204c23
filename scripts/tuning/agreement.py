"""Compares the log probabilities of the trainer with those of the server, which has the same adapter.

    python -m scripts.tuning.agreement                     each dtype and quantization, with models/demo
    python -m scripts.tuning.agreement --model FOLDER --only bfloat16,int8
    python -m scripts.tuning.agreement --mapped            the trainer maps the server's packed weights

For each, trains a LoRA adapter for a few steps, attention, MLPs and output layer, serves it, samples from it,
and scores the samples with the trainer. Prints |sampler - trainer| of sampled tokens (decode) and of the same
tokens as a prompt (prefill), in nats: the largest and the mean; then the mean without an adapter.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from inference.backend import Backend
from inference.events import Started, Token
from inference.factory import LoadedEngine, open_backend, open_engine
from inference.metrics import Metrics
from inference.model.load_recipe import find_weight_file
from inference.model.weights import weight_cache
from inference.native.weight_cache.source_files import OFF
from inference.sampling import Sampling
from inference.types import GenerationRequest
from settings.groups import BackendSettings, EngineSettings, ModelSettings
from tuning.trainer.datum import Datum
from tuning.trainer.model.base_model import load_base
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer

TEXT_FILE = Path("docs/how_it_works.md")
NUM_PROMPTS, PROMPT_TOKENS, NEW_TOKENS, CONTEXT = 8, 128, 64, 512
NUM_STEPS, RANK = 8, 32
STEP = AdamParams(learning_rate=2e-3, beta2=0.95, grad_clip_norm=0)
ENGINE = EngineSettings(
    context=CONTEXT, max_sequences=8, kv_memory_bytes=1 << 28, max_batch_tokens=256, max_queued_tokens=100_000
)


@dataclass(frozen=True, slots=True)
class Case:
    """How the model is served; the trainer has the same dtype and weights."""

    name: str
    dtype: str
    quantize: str = "none"
    deterministic: bool = False


CASES = (
    Case("float32", "float32"),
    Case("deterministic", "float32", deterministic=True),
    Case("bfloat16", "bfloat16"),
    Case("int8", "bfloat16", "int8"),
    Case("int4", "bfloat16", "int4"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/demo"))
    parser.add_argument("--only", default="", help="names of cases, with commas between; default: all")
    parser.add_argument("--mapped", action="store_true", help="as of a server's second start on")
    args = parser.parse_args()
    names = set(filter(None, args.only.split(",")))
    print(f"{'':14} {'decode: max':>12} {'mean':>9} {'prefill: max':>13} {'mean':>9} {'base: mean':>11}")
    for case in CASES:
        if not names or case.name in names:
            with tempfile.TemporaryDirectory() as folder:
                weight_file = keep_weights(args.model, case, Path(folder)) if args.mapped else ""
                decoded, prefilled, base = measure(args.model, case, weight_file)
            print(
                f"{case.name:14} {decoded.max():12.1e} {decoded.mean():9.1e} "
                f"{prefilled.max():13.1e} {prefilled.mean():9.1e} {base.mean():11.1e}",
                flush=True,
            )


def keep_weights(model: Path, case: Case, folder: Path) -> str:
    """The file of packed weights that a first start of the server keeps, however small the model is."""
    weight_cache.MIN_BYTES = 0
    settings = model_settings(case, str(folder))
    weight_file = find_weight_file(model, settings)
    assert weight_file is not None
    backend = serve(open_engine(model, settings, ENGINE))
    while not weight_file.exists():
        time.sleep(0.1)
    backend.close()
    return str(weight_file)


def serve(loaded_engine: LoadedEngine) -> Backend:
    return open_backend(loaded_engine, BackendSettings(), model_id="served", metrics=Metrics())


def measure(model: Path, case: Case, weight_file: str) -> tuple[Tensor, Tensor, Tensor]:
    """|sampler - trainer| of decoded tokens, of the same as prompts, and of prompts without the adapter."""
    base = load_base(
        model, ModelSettings(dtype=case.dtype, device="cpu", quantize=case.quantize), weight_file=weight_file
    )
    text = TEXT_FILE.read_text()[: NUM_PROMPTS * PROMPT_TOKENS * 8]
    ids = base.tokenizer.encode(text, add_special_tokens=False)
    prompts = [
        ids[first : first + PROMPT_TOKENS] for first in range(0, NUM_PROMPTS * PROMPT_TOKENS, PROMPT_TOKENS)
    ]
    trainer = Trainer(base, scores_masked=True)
    trainer.create_run("run", LoraOptions(rank=RANK, train_output=True))
    untrained = trainer.forward("run", [to_datum(prompt) for prompt in prompts], "cross_entropy").logprobs
    with tempfile.TemporaryDirectory() as folder, torch.enable_grad():
        for _ in range(NUM_STEPS):
            trainer.forward_backward("run", [to_datum(prompt) for prompt in prompts], "cross_entropy")
            trainer.optim_step("run", STEP)
        trainer.save("run", Path(folder), with_optimizer=False)
        return compare(open_served(model, case, Path(folder)), trainer, prompts, untrained)


def to_datum(token_ids: Sequence[int]) -> Datum:
    weights = [1 / (NUM_PROMPTS * PROMPT_TOKENS)] * (len(token_ids) - 1)
    return Datum(token_ids[:-1], token_ids[1:], {"weights": weights})


def model_settings(case: Case, weight_cache_dir: str) -> ModelSettings:
    return ModelSettings(
        device="cpu", dtype=case.dtype, quantize=case.quantize, weight_cache_dir=weight_cache_dir
    )


def open_served(model: Path, case: Case, adapter: Path) -> Backend:
    settings = model_settings(case, OFF)
    engine_settings = EngineSettings(
        **{name: getattr(ENGINE, name) for name in ENGINE.__slots__} | {"deterministic": case.deterministic}
    )
    backend = serve(open_engine(model, settings, engine_settings))
    adapters = backend.adapters()
    assert adapters is not None
    adapters.load("trained", adapter, "trained")
    return backend


def compare(
    backend: Backend, trainer: Trainer, prompts: Sequence[Sequence[int]], untrained: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    try:
        samples = [sample(backend, prompt) for prompt in prompts]
        sequences = [[*prompt, *ids] for prompt, (ids, _) in zip(prompts, samples, strict=True)]
        trained = trainer.forward("run", [to_datum(each) for each in sequences], "cross_entropy").logprobs
        decoded = [
            (torch.tensor(logprobs) - scores[-len(logprobs) :]).abs()
            for (_, logprobs), scores in zip(samples, trained, strict=True)
        ]
        prefilled = [
            (prompt_logprobs(backend, ids, "trained") - scores).abs()
            for ids, scores in zip(sequences, trained, strict=True)
        ]
        base = [
            (prompt_logprobs(backend, ids, None) - scores).abs()
            for ids, scores in zip(prompts, untrained, strict=True)
        ]
        return torch.cat(decoded), torch.cat(prefilled), torch.cat(base)
    finally:
        backend.close()


def sample(backend: Backend, prompt: Sequence[int]) -> tuple[list[int], list[float]]:
    """Sampled ids, at temperature 1, and their logprobs."""
    request = GenerationRequest(
        prompt,
        Sampling(seed=len(prompt)),
        max_tokens=NEW_TOKENS,
        ignore_eos=True,
        logprobs=0,
        adapter="trained",
    )
    tokens = [event for event in backend.generate(request) if isinstance(event, Token)]
    return [token.id for token in tokens], [token.logprob or 0.0 for token in tokens]


def prompt_logprobs(backend: Backend, token_ids: Sequence[int], adapter: str | None) -> Tensor:
    """The logprobs of all tokens after the first."""
    request = GenerationRequest(token_ids, max_tokens=1, prompt_logprobs=0, adapter=adapter)
    started = next(event for event in backend.generate(request) if isinstance(event, Started))
    return torch.tensor([token.logprob for token in started.prompt_logprobs[1:]])


if __name__ == "__main__":
    main()
