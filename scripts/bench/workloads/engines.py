"""Compares our server with the other installed engines, with weights of one precision at a time."""

from dataclasses import replace
from functools import partial
from random import Random

from scripts.bench import bandwidth
from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.engines import ENGINES
from scripts.bench.engines.llama_cpp import LLAMA_CPP
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, Request, Run, equal_length_load, random_token_ids
from scripts.bench.models import bytes_per_token, model_folder
from scripts.bench.options import GGUF_FORMATS, NONE, PRECISIONS, BenchOptions
from scripts.bench.server import start_hearth
from scripts.bench.workload import BenchWorkload

SHORT_PROMPT, LONG_PROMPT, ANSWER_TOKENS = 64, 1024, 128  # tokens
# Log-normal lengths of 16 prompts and their answers: 5,331 and 2,185 tokens in all.
MIXED_LENGTHS = (
    *((153, 145), (155, 105), (552, 83), (69, 305), (312, 105), (71, 76), (746, 110), (398, 78)),
    *((893, 84), (243, 86), (456, 281), (283, 103), (206, 111), (382, 143), (143, 279), (269, 91)),
)
TOTAL_PROMPT_TOKENS, TOTAL_ANSWER_TOKENS = map(sum, zip(*MIXED_LENGTHS, strict=True))


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    """Prompts are new in each round, so that no prefix cache contains them."""
    random, vocab_size = Random(round_number), options.vocab_size
    loads = {
        "decode": equal_length_load(random, vocab_size, 1, SHORT_PROMPT, ANSWER_TOKENS),
        "prefill": equal_length_load(random, vocab_size, 1, LONG_PROMPT, 1),
        "mixed": [
            Request(random_token_ids(random, prompt_tokens, vocab_size), answer_tokens)
            for prompt_tokens, answer_tokens in MIXED_LENGTHS
        ],
    }
    return {name: load for name, load in loads.items() if name in (options.only or loads)}


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    specs = [make_hearth_spec(options)]
    if options.profile:
        specs.append(EngineSpec("hearth, in process", partial(SpawnedEngine, partial(Hearth, options))))
    for name, engine in ENGINES.items():
        if (
            options.quantize in engine.weight_formats
            and name in (options.against or ENGINES)
            and engine.is_installed(options)
        ):
            specs.append(engine.make_spec(options))
    return specs


def make_hearth_spec(options: BenchOptions) -> EngineSpec:
    """Our server with the weights that the others have; in a GGUF format, with llama.cpp's own file."""
    if options.quantize not in GGUF_FORMATS:
        return EngineSpec("hearth", partial(start_hearth, options), partial(model_folder, options.model))
    prepare = partial(LLAMA_CPP.prepare_model, options, LLAMA_CPP.weight_formats[options.quantize])
    return EngineSpec(
        "hearth", lambda: start_hearth(replace(options, model=str(prepare()), quantize=NONE)), prepare
    )


def decode_rate(run: Run) -> float:
    """Tokens per second after the first token."""
    (token_times,) = run.token_times
    return (run.num_tokens - 1) / (token_times[-1] - token_times[0])


def prefill_rate(run: Run) -> float:
    """Prompt tokens divided by the time to first token."""
    return LONG_PROMPT / run.token_times[0][0]


def measure_limit(options: BenchOptions) -> tuple[float, str]:
    """Tokens per second that memory bandwidth allows, and an explanation. The small KV cache is ignored."""
    rate, size = bandwidth.measure(options.threads), bytes_per_token(options.model, options.quantize)
    return rate / size, f"{rate / 1e9:.1f} GB/s read, {size / 1e6:.0f} MB of weights a token"


ENGINES_WORKLOAD = BenchWorkload(
    "engines",
    f"our server and the other engines, through their servers if they have one. Greedy.\n"
    f"decode: {SHORT_PROMPT} prompt tokens; {ANSWER_TOKENS} answer tokens, per second after the first.\n"
    f"prefill: {LONG_PROMPT} prompt tokens, per second until the first token of the answer.\n"
    f"mixed: {len(MIXED_LENGTHS)} requests, {TOTAL_PROMPT_TOKENS} prompt tokens; {TOTAL_ANSWER_TOKENS} "
    f"answer tokens, per second.\n"
    f"peak MB: resident memory of all processes of an engine.",
    "0.5b",
    make_loads,
    make_specs,
    {"decode": decode_rate, "prefill": prefill_rate},
    measure_limit,
    PRECISIONS,
)
