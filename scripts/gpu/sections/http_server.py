"""The throughput of the server over HTTP: streamed completions, all at once."""

import sys
from collections.abc import Iterator
from random import Random

from scripts.bench.load import equal_length_load
from scripts.bench.models import model_folder
from scripts.bench.options import BenchOptions
from scripts.bench.server import MODEL_NAME, ServerEngine
from scripts.gpu.engine import EngineSize
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

# The shape to serve, if writing the weights of the measured one takes minutes; the server's own limit of
# tokens a second shows best with a small model.
SERVED_SHAPES = {"8b": "1b"}
STREAMS = (64, 256)
PROMPT_TOKENS, ANSWER_TOKENS = 128, 256


def measure_section(run: SectionRun) -> Iterator[Figure]:
    shape = SERVED_SHAPES.get(run.bench.model, run.bench.model)
    command = make_command(shape, run.bench, run.engines.size)
    run.engines.free()  # also the memory in which the shape's weights were made
    server = ServerEngine(command, "/health/ready", environment={"HF_HUB_OFFLINE": "1"})
    prompt, num_tokens = run.choose((PROMPT_TOKENS, ANSWER_TOKENS), (16, 4))
    random, vocab = Random(2), run.bench.vocab_size
    try:
        server.run(equal_length_load(random, vocab, 2, prompt, 4))  # warm-up
        for streams in run.choose(STREAMS, (2,)):
            result = server.run(equal_length_load(random, vocab, streams, prompt, num_tokens))
            yield Figure(
                f"{streams} streams",
                result.tokens_per_second,
                "tokens/s",
                f"{shape}, {prompt} in, {num_tokens} out",
            )
            yield Figure(f"{streams} streams, first token", result.first_token_ms(0.5), "ms")
            yield Figure(f"{streams} streams, server", result.cpu_s / result.seconds, "cores")
    finally:
        server.stop()


def make_command(shape: str, bench: BenchOptions, size: EngineSize) -> list[str]:
    """The command that serves the shape, with room for all streams."""
    flags = {
        "model": str(model_folder(shape)),
        "port": "{port}",
        "served-names": MODEL_NAME,
        "log-level": "warning",
        "dtype": bench.dtype,
        "device": bench.device,
        "max-sequences": str(size.max_sequences),
        "max-batch-tokens": str(size.max_batch_tokens),
        "max-concurrent-requests": str(2 * max(STREAMS)),
    }
    return [sys.executable, "main.py", *(f"--{name}={value}" for name, value in flags.items())]
