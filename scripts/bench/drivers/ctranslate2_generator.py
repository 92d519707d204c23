"""Computes loads with CTranslate2's generator: python -m … FOLDER THREADS. See peers/piped.py.

Runs in CTranslate2's environment; knows nothing of ours but the format of lines. Requests of a load are one
batch, in which an answer that has its tokens is stopped.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ctranslate2


def main(folder: str, threads: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    names = json.loads(Path(folder, "vocabulary.json").read_text())
    generator = ctranslate2.Generator(folder, device="cpu", intra_threads=int(threads))
    print(json.dumps({"about": f"in process, one batch, {generator.compute_type}"}), file=answers)
    for line in sys.stdin:
        print(json.dumps(computed(generator, names, json.loads(line))), file=answers)


def computed(generator: Any, names: list[str], load: list[tuple[list[int], int]]) -> dict[str, Any]:
    began = time.perf_counter()
    stamps: list[list[float]] = [[] for _ in load]

    def stepped(step: Any) -> bool:
        """Whether the answer is to end."""
        seen = stamps[step.batch_id]
        seen.append(time.perf_counter() - began)
        return len(seen) >= load[step.batch_id][1]

    generator.generate_batch(
        [[names[id] for id in ids] for ids, _ in load],
        max_length=max(count for _, count in load),
        min_length=max(count for _, count in load),
        include_prompt_in_result=False,
        sampling_topk=1,
        callback=stepped,
    )
    seconds, tokens = time.perf_counter() - began, sum(map(len, stamps))
    assert tokens == sum(count for _, count in load), "an answer ended early"
    return {"stamps": stamps, "seconds": seconds, "tokens": tokens}


if __name__ == "__main__":
    main(*sys.argv[1:])
