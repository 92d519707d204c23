"""The throughput of many requests that arrive at once, with the engine on its own thread as in a server."""

from collections.abc import Iterator

from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROWS = (64, 256)
PROMPT_TOKENS, ANSWER_TOKENS = 512, 256


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine = run.engines.get()
    prompt, num_tokens = run.choose((PROMPT_TOKENS, ANSWER_TOKENS), (24, 4))
    for rows in run.choose(ROWS, (2,)):
        engine.run_threaded(engine.make_load(rows, prompt // 4, 8))  # compiles kernels
        result = engine.run_threaded(engine.make_load(rows, prompt, num_tokens))
        rate = result.num_tokens / result.seconds
        yield Figure(f"{rows} requests", rate, "tokens/s", f"{prompt} in, {num_tokens} out")
        yield Figure(
            f"{rows} requests, first token",
            result.first_token_ms(0.5),
            "ms",
            f"99th percentile {result.first_token_ms(0.99):.0f}",
        )
        yield Figure(
            f"{rows} requests, between tokens",
            result.inter_token_ms(0.5),
            "ms",
            f"99th percentile {result.inter_token_ms(0.99):.1f}",
        )
        yield Figure(f"{rows} requests, CPU", result.cpu_s / result.seconds, "cores")
