"""Answers of an engine whose steps a test runs, and of transformers' generate."""

import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.step_output import StepOutput
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request

GREEDY = Sampling(greedy=True)
NEW = 12


class AnswerCollector:
    """An OutputSink that collects token ids and the finish reason."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.reason = ""

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.ids += output.token_ids
        self.reason = output.finish_reason or self.reason


def generate_reference(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """The greedy answer of transformers, without a cache if the model cannot use one."""
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    prompt_ids = torch.tensor([prompt], device=model.device)
    with torch.inference_mode():
        ids = model.generate(prompt_ids, do_sample=False, eos_token_id=None, **limits)
    return ids[0, -NEW:].tolist()


def submit(served: Engine, prompt: list[int]) -> AnswerCollector:
    collector = AnswerCollector()
    collector.id = served.submit([make_request(tuple(prompt), max_tokens=NEW, sampling=GREEDY)], [collector])[
        0
    ]
    return collector


def run_until_idle(served: Engine) -> None:
    while served.step():
        pass
