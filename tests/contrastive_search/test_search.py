"""Contrastive search against its formula, recomputed from scratch at each step."""

from collections.abc import Sequence as SequenceOf
from itertools import islice

import pytest
import torch
from transformers import PreTrainedModel

from inference.contrastive_search.search import ProcessLogits, search, supports_contrastive_search
from inference.model.contiguous.runner import install_hooks
from tests.tiny_models.families import FAMILIES, RECURRENT, UNCACHED, UNUSUAL, tiny

PROMPT, SOURCE, COUNT = (5, 6, 7, 8, 9, 10, 11), (20, 21, 22), 20
# Grouped attention, learned positions, a window shorter than the text, position biases, encoders.
KINDS = ("llama", "gpt2", "gemma3_text", "bloom", "t5", "bart")

Ids = SequenceOf[int]


def same(logits: torch.Tensor) -> torch.Tensor:
    return logits


def plain(model: PreTrainedModel, ids: Ids, source: Ids, k: int, alpha: float) -> list[int]:
    """Su et al., equation 5, without a KV cache: the whole text of each candidate is computed."""
    ids = list(ids)
    for _ in range(COUNT):
        probs = forward_uncached(model, ids, source)[0][-1].softmax(-1)
        best = probs.argsort(descending=True)[:k].tolist()
        scores = []
        for token in best:
            states = forward_uncached(model, [*ids, token], source)[1]
            similarities = [float(torch.cosine_similarity(states[-1], state, dim=0)) for state in states[:-1]]
            scores.append((1 - alpha) * float(probs[token]) - alpha * max(similarities))
        ids.append(best[scores.index(max(scores))])
    return ids[-COUNT:]


def forward_uncached(model: PreTrainedModel, ids: Ids, source: Ids) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (n, V) and hidden states (n, d) of a text, computed from scratch."""
    text = torch.tensor([ids])
    with torch.inference_mode():
        if source:
            inputs = {"input_ids": torch.tensor([source]), "decoder_input_ids": text}
            output = model(**inputs, use_cache=False, output_hidden_states=True)
            return output.logits[0], output.decoder_hidden_states[-1][0]
        output = model(input_ids=text, use_cache=False, output_hidden_states=True)
        return output.logits[0], output.hidden_states[-1][0]


def search_tokens(
    model: PreTrainedModel, k: int, alpha: float, process_logits: ProcessLogits = same
) -> list[int]:
    source = SOURCE if model.config.is_encoder_decoder else ()
    ids = PROMPT[:1] if source else PROMPT
    return list(islice(search(model, ids, source, k=k, alpha=alpha, process_logits=process_logits), COUNT))


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize(("k", "alpha"), ((4, 0.6), (2, 0.3)))
def test_the_search_matches_the_formula(family: str, k: int, alpha: float) -> None:
    source = SOURCE if family in ("t5", "bart") else ()
    expected = plain(tiny(family), PROMPT[:1] if source else PROMPT, source, k, alpha)
    model = tiny(family)
    install_hooks(model)
    assert search_tokens(model, k, alpha) == expected


def test_an_alpha_of_zero_gives_the_most_probable_tokens() -> None:
    model, ids = tiny("llama"), list(PROMPT)
    for _ in range(COUNT):
        ids.append(int(forward_uncached(model, ids, ())[0][-1].argmax()))
    assert search_tokens(model, 4, 0.0) == ids[-COUNT:]


def test_a_positive_alpha_gives_other_tokens() -> None:
    assert search_tokens(tiny("llama"), 4, 0.6) != search_tokens(tiny("llama"), 4, 0.0)


def test_tokens_that_an_edit_forbids_are_never_chosen() -> None:
    allowed = [3, 40, 41]

    def edit(logits: torch.Tensor) -> torch.Tensor:
        masked = torch.full_like(logits, float("-inf"))
        masked[:, allowed] = logits[:, allowed]
        return masked

    assert set(search_tokens(tiny("llama"), 8, 0.9, edit)) <= set(allowed)


def test_more_candidates_than_tokens_means_all_tokens() -> None:
    model = tiny("llama")
    assert search_tokens(model, 1000, 0.6) == search_tokens(model, 97, 0.6)


@pytest.mark.parametrize("family", ("llama", "gemma3_text", "t5", "falcon_h1", "mamba", "xlnet", "jamba"))
def test_the_search_needs_a_cache_whose_rows_can_be_repeated(family: str) -> None:
    columns = family not in RECURRENT and family not in UNCACHED and family not in UNUSUAL
    assert supports_contrastive_search(tiny(family)) == columns


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(KINDS) - set(RECURRENT)))
def test_every_family_matches_the_formula(family: str) -> None:
    source = SOURCE if tiny(family).config.is_encoder_decoder else ()
    expected = plain(tiny(family), PROMPT[:1] if source else PROMPT, source, 4, 0.6)
    assert search_tokens(tiny(family), 4, 0.6) == expected
