"""Computes loads with vLLM's LLM: python -m … FOLDER OPTIONS

FOLDER has a config.json, and OPTIONS are arguments of LLM in JSON. Runs in vLLM's environment and imports
nothing else of this project. engines/subprocess_engine.py describes the format of its input and output; of
each answer, only its first token is timed.
"""

import json
import os
import sys
import time
from typing import Any


def main(folder: str, options: str) -> None:
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr, also while they are imported
    from vllm import LLM

    llm = LLM(folder, skip_tokenizer_init=True, disable_log_stats=False, **json.loads(options))
    print(json.dumps({"description": "in process, LLM"}), file=output)
    for line in sys.stdin:
        print(json.dumps(compute(llm, json.loads(line))), file=output)


def compute(llm: Any, load: list[tuple[list[int], int]]) -> dict[str, Any]:
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": ids} for ids, _ in load]
    sampling = [
        SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
        for _, count in load
    ]
    start_s = time.perf_counter()
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    seconds = time.perf_counter() - start_s
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    assert tokens == sum(count for _, count in load), "an answer ended early"
    first_s = [output.metrics.first_token_latency for output in outputs]
    return {"token_times": [[each] for each in first_s], "seconds": seconds, "tokens": tokens}


if __name__ == "__main__":  # vLLM starts processes that import this module
    main(*sys.argv[1:])
