"""Other tokens at the places of a prompt: candidates of the request, and tokens that are drawn."""

import math
from collections import Counter

import torch

from inference.engine.step_output import PromptLogprob, StepOutput
from inference.prompt_scoring import PromptScoring
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request
from tests.lora.adapted_engine import AdaptedEngine
from tests.tiny_models.families import VOCAB, tiny

PROMPT = [5, 9, 3, 14, 7, 22, 8, 41, 17, 6, 30, 12, 11, 19, 50, 4, 33, 13, 25, 10]  # longer than a step
CANDIDATES = [[place % VOCAB, 60][: place % 3] for place in range(len(PROMPT) - 1)]


class PromptSink:
    """Collects the scores of the prompt."""

    def __init__(self) -> None:
        self.scores: tuple[PromptLogprob, ...] = ()

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.scores += output.prompt_logprobs


def score(served: AdaptedEngine, scoring: PromptScoring, seed: int = 0, **sampling: float) -> PromptSink:
    sink = PromptSink()
    request = make_request(
        PROMPT, 1, Sampling(**sampling), seed=seed, prompt_logprobs=0, prompt_scoring=scoring
    )
    served.engine.submit([request], [sink])
    served.run()
    return sink


def plain_scores(served: AdaptedEngine) -> torch.Tensor:
    with torch.inference_mode():
        return served.model(torch.tensor([PROMPT])).logits[0].log_softmax(-1)


def test_candidates_have_the_logprobs_of_the_model_at_any_temperature() -> None:
    served = AdaptedEngine(tiny("llama"))
    sink = score(served, PromptScoring(CANDIDATES), temperature=3.0)
    expected = plain_scores(served)
    assert len(sink.scores) == len(PROMPT) and sink.scores[0].place is None
    for place, ids in enumerate(CANDIDATES):
        scored = sink.scores[place + 1].place
        assert scored is not None and len(scored.candidates) == len(ids)
        for token_id, logprob in zip(ids, scored.candidates, strict=True):
            assert math.isclose(logprob, expected[place, token_id], abs_tol=1e-4)


def test_drawn_tokens_follow_the_distribution_and_repeat_with_the_seed() -> None:
    served = AdaptedEngine(tiny("llama"))
    probabilities, counts = plain_scores(served).div(0.5).softmax(-1), Counter[tuple[int, int]]()
    for seed in range(60):
        sink = score(served, PromptScoring(num_draws=20), seed, temperature=0.5)
        for place, entry in enumerate(sink.scores[1:]):
            assert entry.place is not None and len(entry.place.draws) == 20
            counts.update((place, token_id) for token_id, _ in entry.place.draws)
    (place, token_id), count = counts.most_common(1)[0]
    expected = probabilities[place, token_id].item()
    assert abs(count / 1200 - expected) < 5 * math.sqrt(expected / 1200)
    assert len({token_id for _, token_id in counts}) > VOCAB / 2
    again = score(served, PromptScoring(num_draws=20), seed=59, temperature=0.5)
    assert again.scores == sink.scores
    logprobs = plain_scores(served)
    for place, entry in enumerate(sink.scores[1:]):
        for token_id, logprob in entry.place.draws:
            assert math.isclose(logprob, logprobs[place, token_id], abs_tol=1e-4)


def test_greedy_draws_are_the_most_probable_token() -> None:
    served = AdaptedEngine(tiny("llama"))
    sink = score(served, PromptScoring(num_draws=2), temperature=0.0)
    expected = plain_scores(served).argmax(-1).tolist()
    assert [[token_id for token_id, _ in entry.place.draws] for entry in sink.scores[1:]] == [
        [token_id] * 2 for token_id in expected[:-1]
    ]
