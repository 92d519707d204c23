"""Steps of native code: what a row is told depends on no other, and rounds no more than transformers does."""

import random
from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Clear
from inference.model.fused.reader import read
from inference.model.fused.runner import FusedRunner
from tests.families import CONTEXT, LLAMAS, VOCAB, tiny
from tests.model.fused.llamas import held

ROWS = 5
PAGES = CONTEXT // 16


def runner(model: PreTrainedModel) -> FusedRunner:
    return FusedRunner(model, read(model, CONTEXT), max_rows=ROWS, context=CONTEXT, area=ROWS * CONTEXT)


def texts() -> list[list[int]]:
    chance = random.Random(5)
    return [[chance.randrange(3, VOCAB) for _ in range(length)] for length in (40, 3, 70, 17, 1)]


def computed(served: FusedRunner, steps: Sequence[dict[int, int]]) -> list[torch.Tensor]:
    """The logits (n, V) of each row's tokens, of which each step takes some: row → how many."""
    held, logits = [0] * ROWS, [torch.empty(0, VOCAB)] * ROWS
    for step in steps:
        parts = {row: texts()[row][held[row] : held[row] + count] for row, count in step.items()}
        starts = [sum(map(len, list(parts.values())[:place])) for place in range(len(parts) + 1)]
        batch = Batch(
            ids=[token for part in parts.values() for token in part],
            starts=starts,
            cached=[held[row] for row in parts],
            rows=list(parts),
            want=range(starts[-1]),
            tables=[[row + ROWS * place for place in range(PAGES)] for row in parts],
        )
        made = served.forward(batch).float().clone()
        for (row, part), start in zip(parts.items(), starts, strict=False):
            logits[row] = torch.cat([logits[row], made[start : start + len(part)]])
            held[row] += len(part)
    return logits


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", ("llama", "gemma2", "qwen3"))
def test_a_row_is_told_the_same_bits_alone_and_in_company(name: str, dtype: torch.dtype) -> None:
    served = runner(held(name, dtype))
    lengths = [len(text) for text in texts()]
    alone = [computed(served, [{row: length}])[row] for row, length in enumerate(lengths)]
    together = computed(served, [dict(enumerate(lengths))])
    pieces = computed(served, [{0: 7, 2: 64}, {0: 1, 1: 2, 2: 1, 3: 16}, {0: 32, 1: 1, 2: 5, 3: 1, 4: 1}])
    for row in range(ROWS):
        assert torch.equal(together[row], alone[row]) and torch.equal(pieces[row], alone[row])


@pytest.mark.parametrize("name", LLAMAS)
def test_bfloat16_is_no_further_from_the_truth_than_in_transformers(name: str) -> None:
    """In the mean, over all tokens, with the same weights; a tenth more is chance."""
    model = tiny(name).bfloat16()
    ids = [torch.tensor([text]) for text in texts()]
    with torch.inference_mode():
        plain = torch.cat([model(each).logits[0] for each in ids]).float()
        exact = torch.cat([model.float()(each).logits[0] for each in ids])
    ours = torch.cat(computed(runner(held(name, torch.bfloat16)), [dict(enumerate(map(len, texts())))]))
    assert (ours - exact).abs().mean() < 1.1 * (plain - exact).abs().mean()


def test_few_logits_are_written_where_those_before_were() -> None:
    served = runner(held("llama"))
    batch = Batch((5, 6), (0, 2), (0,), (0,), (1,), tables=((0,),))
    assert served.forward(batch).data_ptr() == served.forward(batch).data_ptr()
    assert served.forward(batch).shape == (1, VOCAB)


def test_a_page_is_made_blank_again() -> None:
    served = runner(held("llama"))
    served.forward(Batch((5,), (0, 1), (0,), (0,), (0,), tables=((3,),)))
    pages = served.pool.modules[served.reading.blocks[1].attention]
    assert pages.keys[3].any()
    served.forward(Batch((5,), (0, 1), (0,), (0,), (0,), moves=(Clear(3),), tables=((2,),)))
    assert not pages.keys[3].any() and not pages.values[3].any()


def test_the_model_computes_as_before() -> None:
    model, ids = held("llama"), torch.tensor([texts()[0]])
    served = runner(model)
    with torch.inference_mode():
        before = model(ids).logits
        computed(served, [{0: 40}])
        assert torch.equal(model(ids).logits, before)
