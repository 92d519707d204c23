"""A vector is the mean of the model's own last hidden states, whatever else the model is at."""

from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from inference.errors import NotImplementedHere
from inference.model.batch import Batch, Shape
from inference.model.embed import Vector, embed
from inference.model.slots.runner import SlotRunner, prepare
from inference.model.slots.sources import SourceRunner
from tests.families import CONTEXT, ENCODERS, FAMILIES, UNCACHED, tiny

TEXTS = [(5, 6, 7, 8, 9, 10, 11), (40,), (5, 6, 7, 90)]
# Of every kind: grouped and windowed attention, learned positions, a recurrent state, no cache, encoders.
KINDS = ("llama", "gemma3_text", "gpt2", "mamba", "opt", "openai-gpt", "t5", "bart")
OTHERS = sorted((set(FAMILIES) | set(UNCACHED)) - set(KINDS) - set(ENCODERS))


def vectors(model: PreTrainedModel, inputs: Sequence[Sequence[int]]) -> list[Vector]:
    work, steps = embed(model, inputs), 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            assert steps == len(inputs), "one input a step"
            return done.value
        steps += 1


def true(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    """By transformers alone: what it reports as hidden states with the answer's first step."""
    text = torch.tensor([ids])
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            output = model(input_ids=text, decoder_input_ids=torch.tensor([[0]]), output_hidden_states=True)
            states = output.encoder_last_hidden_state
        else:
            states = model(input_ids=text, output_hidden_states=True).hidden_states[-1]
    mean = states[0].double().mean(0)
    return (mean / mean.norm()).float()


def driven(model: PreTrainedModel) -> SlotRunner:
    """Its seat, some rows filled."""
    seat = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    runner = seat(model, max_rows=2, context=CONTEXT, area=2 * CONTEXT, resumes=True)
    sources = {0: (7, 8)} if runner.encodes else {}
    runner.forward(Batch([5, 6, 7], [0, 3], [0], [0], [2], [Shape(2, 64)], sources))
    return runner


@pytest.mark.parametrize("family", KINDS)
def test_a_vector_is_the_mean_of_the_last_hidden_states(family: str) -> None:
    expected = [true(tiny(family), ids) for ids in TEXTS]
    model = tiny(family)
    prepare(model)
    for found, wanted in zip(vectors(model, TEXTS), expected, strict=True):
        assert torch.tensor(found).norm() == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(torch.tensor(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ("llama", "mamba", "t5"))
def test_a_vector_does_not_depend_on_its_neighbours(family: str) -> None:
    model = tiny(family)
    assert vectors(model, TEXTS) == [vectors(model, [ids])[0] for ids in TEXTS]


@pytest.mark.parametrize("family", ("llama", "gpt2", "t5"))
def test_the_rows_are_left_as_they_were(family: str) -> None:
    model = tiny(family)
    seat = driven(model)
    step = Batch([9], [0, 1], [3], [0], [0])
    before = seat.forward(step).clone()
    vectors(model, TEXTS)
    assert torch.equal(seat.forward(step), before)


def test_a_model_without_a_body_is_refused() -> None:
    with pytest.raises(NotImplementedHere, match="hidden states"):
        next(embed(tiny("llama").base_model, TEXTS))


@pytest.mark.slow
@pytest.mark.parametrize("family", OTHERS)
def test_so_it_is_for_every_family(family: str) -> None:
    model = tiny(family)
    for found, ids in zip(vectors(model, TEXTS), TEXTS, strict=True):
        torch.testing.assert_close(torch.tensor(found), true(model, ids), rtol=1e-4, atol=1e-5)
