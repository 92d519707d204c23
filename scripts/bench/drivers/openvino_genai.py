"""Computes loads with OpenVINO GenAI's continuous batching: python -m … FOLDER THREADS. See peers/piped.py.

Runs in OpenVINO's environment; knows nothing of ours but the format of lines.
"""

import json
import os
import sys
import time
from typing import Any

import numpy
import openvino
import openvino_genai as genai

CACHE_GB = 1


def main(folder: str, threads: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    schedule = genai.SchedulerConfig()
    schedule.cache_size = CACHE_GB
    schedule.enable_prefix_caching = False
    settings = {"INFERENCE_NUM_THREADS": int(threads)}
    pipeline = genai.ContinuousBatchingPipeline(folder, schedule, "CPU", settings)
    print(json.dumps({"about": "in process, continuous batching"}), file=answers)
    for line in sys.stdin:
        print(json.dumps(computed(pipeline, json.loads(line))), file=answers)


def computed(pipeline: Any, load: list[tuple[list[int], int]]) -> dict[str, Any]:
    began = time.perf_counter()
    handles = [asked(pipeline, number, *request) for number, request in enumerate(load)]
    stamps: list[list[float]] = [[] for _ in load]
    tokens = 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        now = time.perf_counter() - began
        for handle, seen in zip(handles, stamps, strict=True):
            if handle.can_read() and (new := sum(len(out.generated_ids) for out in handle.read().values())):
                seen.append(now)
                tokens += new
    assert tokens == sum(count for _, count in load), "an answer ended early"
    return {"stamps": stamps, "seconds": time.perf_counter() - began, "tokens": tokens}


def asked(pipeline: Any, number: int, ids: list[int], count: int) -> Any:
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = count
    config.ignore_eos = True
    config.do_sample = False
    config.eos_token_id, config.stop_token_ids = ids[0], {ids[0]}  # it wants some; they are not heeded
    return pipeline.add_request(number, openvino.Tensor(numpy.array([ids], dtype=numpy.int64)), config)


if __name__ == "__main__":
    main(*sys.argv[1:])
