"""The time of one token of one row, behind a short and a long context.

The weights are random, so that the rows may be longer than the context in the shape's config.
"""

from collections.abc import Iterator

from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

CONTEXTS = (1_024, 8_192, 32_768)
STEPS = 64
MAX_SEQUENCES = 2


def measure_section(run: SectionRun) -> Iterator[Figure]:
    contexts, steps = run.choose(CONTEXTS, (64, 128)), run.choose(STEPS, 4)
    engine = run.engines.get(context=contexts[-1] + 4 * steps, max_sequences=MAX_SEQUENCES)
    shortest_s = 0.0
    for context in contexts:
        step_s = engine.decode_step_s(1, steps, prompt=context)
        shortest_s = shortest_s or step_s
        added = f"{(step_s - shortest_s) * 1e3:+.3f} ms to {contexts[0]}"
        yield Figure(f"{context} tokens", step_s * 1e3, "ms a token", added)
