"""Contrastive search finds what its formula says, recomputed from nothing at each step."""

from collections.abc import Sequence as Several
from itertools import islice

import pytest
import torch
from transformers import PreTrainedModel

from inference.model.contrast import Edit, repeats, search
from inference.model.slots.runner import prepare
from tests.families import FAMILIES, RECURRENT, UNCACHED, UNUSUAL, tiny

PROMPT, SOURCE, COUNT = (5, 6, 7, 8, 9, 10, 11), (20, 21, 22), 20
# Grouped attention, learned positions, a window shorter than the text, biases by distance, encoders.
KINDS = ("llama", "gpt2", "gemma3_text", "bloom", "t5", "bart")

Ids = Several[int]


def same(logits: torch.Tensor) -> torch.Tensor:
    return logits


def plain(model: PreTrainedModel, ids: Ids, source: Ids, k: int, alpha: float) -> list[int]:
    """Su et al., equation 5, without a memory: each candidate's whole text is computed, token by token."""
    ids = list(ids)
    for _ in range(COUNT):
        probs = whole(model, ids, source)[0][-1].softmax(-1)
        best = probs.argsort(descending=True)[:k].tolist()
        found = []
        for token in best:
            states = whole(model, [*ids, token], source)[1]
            likeness = [float(torch.cosine_similarity(states[-1], state, dim=0)) for state in states[:-1]]
            found.append((1 - alpha) * float(probs[token]) - alpha * max(likeness))
        ids.append(best[found.index(max(found))])
    return ids[-COUNT:]


def whole(model: PreTrainedModel, ids: Ids, source: Ids) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (n, V) and hidden states (n, d) of a text, computed anew."""
    text = torch.tensor([ids])
    with torch.inference_mode():
        if source:
            given = {"input_ids": torch.tensor([source]), "decoder_input_ids": text}
            output = model(**given, use_cache=False, output_hidden_states=True)
            return output.logits[0], output.decoder_hidden_states[-1][0]
        output = model(input_ids=text, use_cache=False, output_hidden_states=True)
        return output.logits[0], output.hidden_states[-1][0]


def found(model: PreTrainedModel, k: int, alpha: float, edit: Edit = same) -> list[int]:
    source = SOURCE if model.config.is_encoder_decoder else ()
    ids = PROMPT[:1] if source else PROMPT
    return list(islice(search(model, ids, source, k=k, alpha=alpha, edit=edit), COUNT))


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize(("k", "alpha"), ((4, 0.6), (2, 0.3)))
def test_it_finds_what_the_formula_says(family: str, k: int, alpha: float) -> None:
    source = SOURCE if family in ("t5", "bart") else ()
    expected = plain(tiny(family), PROMPT[:1] if source else PROMPT, source, k, alpha)
    model = tiny(family)
    prepare(model)
    assert found(model, k, alpha) == expected


def test_without_a_weight_it_finds_the_most_probable_tokens() -> None:
    model, ids = tiny("llama"), list(PROMPT)
    for _ in range(COUNT):
        ids.append(int(whole(model, ids, ())[0][-1].argmax()))
    assert found(model, 4, 0.0) == ids[-COUNT:]


def test_with_a_weight_it_finds_others() -> None:
    assert found(tiny("llama"), 4, 0.6) != found(tiny("llama"), 4, 0.0)


def test_what_an_edit_forbids_is_never_found_though_k_candidates_are_wanted() -> None:
    allowed = [3, 40, 41]

    def edit(logits: torch.Tensor) -> torch.Tensor:
        kept = torch.full_like(logits, float("-inf"))
        kept[:, allowed] = logits[:, allowed]
        return kept

    assert set(found(tiny("llama"), 8, 0.9, edit)) <= set(allowed)


def test_more_candidates_than_tokens_are_all_tokens() -> None:
    model = tiny("llama")
    assert found(model, 1000, 0.6) == found(model, 97, 0.6)


@pytest.mark.parametrize("family", ("llama", "gemma3_text", "t5", "falcon_h1", "mamba", "xlnet", "jamba"))
def test_a_memory_can_be_repeated_where_it_is_one_of_columns(family: str) -> None:
    columns = family not in RECURRENT and family not in UNCACHED and family not in UNUSUAL
    assert repeats(tiny(family)) == columns


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(KINDS) - set(RECURRENT)))
def test_so_it_is_for_every_family(family: str) -> None:
    source = SOURCE if tiny(family).config.is_encoder_decoder else ()
    expected = plain(tiny(family), PROMPT[:1] if source else PROMPT, source, 4, 0.6)
    assert found(tiny(family), 4, 0.6) == expected
