"""A request is resolved for the engine: the seed of each answer, and what its token ids no longer say."""

from dataclasses import replace

import pytest

from inference.local.backend_model import BackendModel
from inference.local.resolve_request import RequestResolver, ResolvedRequest
from inference.sampling import Sampling
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Message
from tests.text.tokenizers_of_three_kinds import tokenizer


def test_a_default_seed_counts_for_requests_without_one() -> None:
    sampled = Sampling(temperature=0.5)
    assert seeds_of(sampled, 0) == [0, 1]
    assert seeds_of(replace(sampled, seed=7), 0) == [7, 8]
    assert seeds_of(replace(sampled, greedy=True, seed=7), 0) == [None, None]


def seeds_of(sampling: Sampling, default_seed: int) -> list[int | None]:
    resolved = ResolvedRequest(GenerationRequest("", sampling, n=2), is_chat=False, arrived_s=0.0)
    return [each.sampling.seed for each in resolved.with_seeds(default_seed)]


@pytest.mark.parametrize(
    ("prompt", "is_chat"), [("The", False), ((5, 6), False), ((Message("user", "The"),), True)]
)
def test_a_resolved_request_has_token_ids_and_remembers_a_conversation(
    prompt: str | tuple[int, ...] | tuple[Message, ...], is_chat: bool
) -> None:
    words = tokenizer("byte-level")
    model = BackendModel(
        id="tiny", tokenizer=words, context=64, vocab=400, eos_token_ids=frozenset([words.eos_token_id])
    )
    resolver = RequestResolver(model, Vocabulary(words))
    resolved = resolver.resolve(GenerationRequest(prompt), (5, 6, 7), has_grammar=False, arrived_s=0.0)
    assert resolved.is_chat == is_chat
    assert resolved.request.prompt_token_ids == (5, 6, 7)
    assert resolved.request.max_tokens == 61
    assert resolved.request.stop_token_ids == (words.eos_token_id,)
