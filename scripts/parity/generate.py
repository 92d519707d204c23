"""Greedy answers of one model: from transformers' `generate`, from the model's forward, and from our engine.

Knows nothing about model types. Special tokens, such as padding and image placeholders, are suppressed in all
answers.
"""

import random
from dataclasses import dataclass
from typing import Any

import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.model.batch import Runner
from inference.model.load.generation_config import decoder_start_ids
from inference.model.reference import ordinary_token_ids
from inference.sampling import Sampling
from inference.types import GenerationRequest

NUM_NEW_TOKENS = 12
ROWS = 4
CONTEXT = 64  # more than the longest prompt and its answer
STEP_TOKENS = 16  # shorter than the longest prompt, which is therefore prefilled in chunks
LENGTHS = (3, 14, 31, 1, 8)
SHARED = 20  # tokens of the prefix that the last two prompts share

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of different lengths, and the token ids that are allowed and suppressed in the answers."""

    token_ids: list[Ids]
    allowed: frozenset[int]
    suppressed: Ids


class RecordingSink:
    """An OutputSink that stores the tokens and the error of a sequence."""

    def __init__(self) -> None:
        self.id = 0
        self.ids: Ids = []
        self.error: Exception | None = None

    def put(self, output: StepOutput) -> None:
        self.ids += output.token_ids
        self.error = output.error or self.error

    def answer_ids(self) -> Ids:
        if self.error is not None:
            raise self.error
        return self.ids


def make_prompts(model: Any, vocab: int) -> Prompts:
    """Random prompts of ordinary tokens; the last two share a prefix."""
    ids = ordinary_token_ids(model)
    rng = random.Random(3)
    random_prompts = [[rng.choice(ids) for _ in range(length)] for length in LENGTHS]
    shared = [rng.choice(ids) for _ in range(SHARED)]
    token_ids = [*random_prompts, shared + random_prompts[0], shared + random_prompts[4]]
    return Prompts(token_ids, frozenset(ids), sorted(set(range(vocab)).difference(ids)))


@torch.inference_mode()
def generate_answer(model: Any, prompt: Ids, suppressed: Ids) -> Ids:
    """The answer of transformers' `generate`."""
    settings: dict[str, Any] = {
        "max_new_tokens": NUM_NEW_TOKENS,
        "min_new_tokens": NUM_NEW_TOKENS,
        "do_sample": False,
    }
    settings |= {"eos_token_id": None, "suppress_tokens": suppressed}
    return model.generate(torch.tensor([prompt]), **settings)[0, -NUM_NEW_TOKENS:].tolist()


@torch.inference_mode()
def forward_answer(model: Any, prompt: Ids, suppressed: Ids) -> Ids:
    """The answer of the model's forward, which recomputes all tokens without a KV cache for each new one."""
    is_encoder_decoder = model.config.is_encoder_decoder
    ids = list(decoder_start_ids(model)) if is_encoder_decoder else list(prompt)
    for _ in range(NUM_NEW_TOKENS):
        inputs = {"input_ids": torch.tensor([ids])}
        if is_encoder_decoder:
            inputs = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([ids])}
        logits = model(**inputs, use_cache=False).logits[0, -1]
        logits[suppressed] = float("-inf")
        ids.append(int(logits.argmax()))
    return ids[-NUM_NEW_TOKENS:]


class ParityEngine:
    """An engine with one runner, and the prompts to answer."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.token_ids = prompts.token_ids
        self.sampling = Sampling(greedy=True, allowed_token_ids=prompts.allowed)
        sampler = Sampler(runner.vocab)
        self.engine = Engine(
            runner, sampler, EngineOptions(max_batch_tokens=STEP_TOKENS, max_queued_tokens=10_000)
        )

    def answer_alone(self) -> list[Ids]:
        """The answers, each computed in a batch of its own."""
        alone_answers = []
        for prompt in self.token_ids:
            sink = self.submit(prompt)
            self.run_to_end()
            alone_answers.append(sink.answer_ids())
        return alone_answers

    def answer_mixed(self) -> list[Ids]:
        """The answers, computed in batches that other sequences join and leave."""
        sinks, others = [], []
        for number, prompt in enumerate(self.token_ids):
            sinks.append(self.submit(prompt))
            others.append(self.submit(prompt[::-1]))
            for _ in range(3):
                self.engine.step()
            if number % 2:
                self.engine.abort([others[number - 1].id])
        self.run_to_end()
        return [sink.answer_ids() for sink in sinks]

    def submit(self, prompt: Ids) -> RecordingSink:
        sink = RecordingSink()
        request = GenerationRequest(tuple(prompt), max_tokens=NUM_NEW_TOKENS, sampling=self.sampling)
        sink.id = self.engine.submit([request], [sink])[0]
        return sink

    def run_to_end(self) -> None:
        while self.engine.step():
            pass
