"""Computes loads with CTranslate2's generator: python -m … FOLDER THREADS

Runs in CTranslate2's environment and imports nothing else of this project. engines/subprocess_engine.py
describes the format of its input and output. The requests of a load are one batch; the callback stops each
answer at its length.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ctranslate2


def main(folder: str, threads: str) -> None:
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr
    names = json.loads(Path(folder, "vocabulary.json").read_text())
    generator = ctranslate2.Generator(folder, device="cpu", intra_threads=int(threads))
    print(json.dumps({"description": f"in process, one batch, {generator.compute_type}"}), file=output)
    for line in sys.stdin:
        print(json.dumps(compute(generator, names, json.loads(line))), file=output)


def compute(generator: Any, names: list[str], load: list[tuple[list[int], int]]) -> dict[str, Any]:
    start_s = time.perf_counter()
    token_times: list[list[float]] = [[] for _ in load]

    def on_token(step: Any) -> bool:
        """Returns True to end the answer."""
        times = token_times[step.batch_id]
        times.append(time.perf_counter() - start_s)
        return len(times) >= load[step.batch_id][1]

    generator.generate_batch(
        [[names[id] for id in ids] for ids, _ in load],
        max_length=max(count for _, count in load),
        min_length=max(count for _, count in load),
        include_prompt_in_result=False,
        sampling_topk=1,
        callback=on_token,
    )
    seconds, tokens = time.perf_counter() - start_s, sum(map(len, token_times))
    assert tokens == sum(count for _, count in load), "an answer ended early"
    return {"token_times": token_times, "seconds": seconds, "tokens": tokens}


if __name__ == "__main__":
    main(*sys.argv[1:])
