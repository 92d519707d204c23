"""The slots seat for encoder-decoder models."""

import pytest
import torch

from inference.model.batch import Batch, Shape
from inference.model.slots.sources import SourceRunner
from inference.model.start import start_ids
from tests.families import CONTEXT, tiny

SOURCES = ([10, 20, 30, 40, 50], [60, 70], [80, 11, 12])


def runner(name: str, forced: int | None = None) -> SourceRunner:
    model = tiny(name)
    model.generation_config.forced_bos_token_id = forced
    return SourceRunner(model, max_rows=4, context=CONTEXT, area=4 * CONTEXT, resumes=True)


@pytest.mark.parametrize("name", ["t5", "bart", "m2m_100"])
def test_answers_are_what_generate_would_write(name: str) -> None:
    """Three rows at once, each begun with the start token and the one that is forced to come first."""
    slots = runner(name, forced=7)
    assert slots.start_ids[1:] == (7,)
    answers = [list(slots.start_ids) for _ in SOURCES]
    batch = Batch(
        ids=[token for answer in answers for token in answer],
        starts=(0, 2, 4, 6),
        cached=(0, 0, 0),
        rows=(0, 1, 2),
        want=(1, 3, 5),
        moves=(Shape(3, 64),),
        sources=dict(enumerate(SOURCES)),
    )
    for held in range(2, 10):
        chosen = slots.forward(batch).argmax(1).tolist()
        answers = [[*answer, token] for answer, token in zip(answers, chosen, strict=True)]
        batch = Batch(chosen, (0, 1, 2, 3), (held,) * 3, (0, 1, 2), (0, 1, 2))
    for source, answer in zip(SOURCES, answers, strict=True):
        whole = slots.model.generate(
            torch.tensor([source]), do_sample=False, max_new_tokens=9, eos_token_id=None, num_beams=1
        )
        assert answer == whole[0].tolist()


def test_a_decoder_without_a_start_of_its_own_begins_with_the_text_start() -> None:
    model = tiny("bart", decoder_start_token_id=None, bos_token_id=5)
    model.generation_config.decoder_start_token_id = None
    assert start_ids(model) == (5,)


def test_a_longer_source_widens_the_memory_of_all_rows() -> None:
    slots = runner("t5")
    short, long = SOURCES[1], list(range(5, 45))
    slots.forward(Batch([0], (0, 1), (0,), (0,), (), (Shape(2, 64),), {0: short}))
    slots.forward(Batch([0], (0, 1), (0,), (1,), (), (), {1: long}))
    both = slots.forward(Batch([9, 9], (0, 1, 2), (1, 1), (0, 1), (0, 1)))
    with torch.inference_mode():
        for row, source in enumerate((short, long)):
            ids = torch.tensor([[0, 9]])
            truth = slots.model(torch.tensor([source]), decoder_input_ids=ids, use_cache=False).logits
            assert torch.allclose(both[row], truth[0, 1], atol=1e-5)
