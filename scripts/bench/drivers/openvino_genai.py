"""Computes loads with OpenVINO GenAI's continuous batching: python -m … FOLDER THREADS

Runs in OpenVINO's environment and imports nothing else of this project. engines/subprocess_engine.py
describes the format of its input and output.
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
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr
    schedule = genai.SchedulerConfig()
    schedule.cache_size = CACHE_GB
    schedule.enable_prefix_caching = False
    settings = {"INFERENCE_NUM_THREADS": int(threads)}
    pipeline = genai.ContinuousBatchingPipeline(folder, schedule, "CPU", settings)
    print(json.dumps({"description": "in process, continuous batching"}), file=output)
    for line in sys.stdin:
        print(json.dumps(compute(pipeline, json.loads(line))), file=output)


def compute(pipeline: Any, load: list[tuple[list[int], int]]) -> dict[str, Any]:
    start_s = time.perf_counter()
    handles = [submit(pipeline, number, *request) for number, request in enumerate(load)]
    token_times: list[list[float]] = [[] for _ in load]
    tokens = 0
    while pipeline.has_non_finished_requests():
        pipeline.step()
        now = time.perf_counter() - start_s
        for handle, times in zip(handles, token_times, strict=True):
            if handle.can_read() and (
                num_new := sum(len(out.generated_ids) for out in handle.read().values())
            ):
                times.append(now)
                tokens += num_new
    assert tokens == sum(count for _, count in load), "an answer ended early"
    return {"token_times": token_times, "seconds": time.perf_counter() - start_s, "tokens": tokens}


def submit(pipeline: Any, number: int, ids: list[int], count: int) -> Any:
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = count
    config.ignore_eos = True
    config.do_sample = False
    config.eos_token_id, config.stop_token_ids = ids[0], {ids[0]}  # required, and ignored
    return pipeline.add_request(number, openvino.Tensor(numpy.array([ids], dtype=numpy.int64)), config)


if __name__ == "__main__":
    main(*sys.argv[1:])
