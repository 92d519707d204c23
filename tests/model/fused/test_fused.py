"""Steps of native code: a row does not depend on others, and rounds no more than in transformers."""

import random
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from transformers import PreTrainedModel

from inference.model.batch import Clear, make_batch
from inference.model.fused.extract import extract_spec
from inference.model.fused.runner import FusedRunner
from inference.model.kv_cost import WindowGroup
from inference.model.paged.kv_pool import AUTO, INT8, KV_DTYPES, PAGE_SIZE, KVPool
from inference.model.paged.runner import PagedRunner
from tests.model.fused.llamas import tiny_with_packed_weights
from tests.model.window_tables import with_window_table
from tests.tiny_models.families import CONTEXT, LLAMAS, VOCAB, tiny

ROWS = 5
PAGES = CONTEXT // 16


def runner(
    model: PreTrainedModel, window_groups: tuple[WindowGroup, ...] = (), kv_dtype: str = AUTO
) -> FusedRunner:
    pool = KVPool(ROWS * CONTEXT // PAGE_SIZE, window_groups=window_groups, kv_dtype=kv_dtype)
    return FusedRunner(model, extract_spec(model, CONTEXT), pool, max_sequences=ROWS, context=CONTEXT)


def texts() -> list[list[int]]:
    chance = random.Random(5)
    return [[chance.randrange(3, VOCAB) for _ in range(length)] for length in (40, 3, 70, 17, 1)]


def compute_steps(served: FusedRunner | PagedRunner, steps: Sequence[dict[int, int]]) -> list[torch.Tensor]:
    """The logits (n, V) of each row's tokens. Each step maps a row to the number of tokens it computes."""
    num_cached, logits = [0] * ROWS, [torch.empty(0, VOCAB)] * ROWS
    for step in steps:
        new_ids = {
            row: texts()[row][num_cached[row] : num_cached[row] + count] for row, count in step.items()
        }
        starts = [sum(map(len, list(new_ids.values())[:place])) for place in range(len(new_ids) + 1)]
        batch = make_batch(
            token_ids=[token for ids in new_ids.values() for token in ids],
            query_start_loc=starts,
            num_computed_tokens=[num_cached[row] for row in new_ids],
            rows=list(new_ids),
            logits_indices=range(starts[-1]),
            page_table=[[row + ROWS * place for place in range(PAGES)] for row in new_ids],
            page_size=PAGE_SIZE,
        )
        for group in served.window_groups:
            batch = with_window_table(batch, group, PAGE_SIZE)
        step_logits = served.forward(batch).float().clone()
        for (row, ids), start in zip(new_ids.items(), starts, strict=False):
            logits[row] = torch.cat([logits[row], step_logits[start : start + len(ids)]])
            num_cached[row] += len(ids)
    return logits


@pytest.mark.parametrize(
    ("name", "dtype", "kv_dtype"),
    [
        *product(("llama", "gemma2", "qwen3"), (torch.float32, torch.bfloat16), (AUTO,)),
        ("gemma2", torch.bfloat16, INT8),
    ],
)
def test_a_row_gets_the_same_bits_alone_and_in_a_batch(name: str, dtype: torch.dtype, kv_dtype: str) -> None:
    served = runner(tiny_with_packed_weights(name, dtype), kv_dtype=kv_dtype)
    lengths = [len(text) for text in texts()]
    alone = [compute_steps(served, [{row: length}])[row] for row, length in enumerate(lengths)]
    together = compute_steps(served, [dict(enumerate(lengths))])
    chunked = compute_steps(
        served, [{0: 7, 2: 64}, {0: 1, 1: 2, 2: 1, 3: 16}, {0: 32, 1: 1, 2: 5, 3: 1, 4: 1}]
    )
    for row in range(ROWS):
        assert torch.equal(together[row], alone[row]) and torch.equal(chunked[row], alone[row])


@pytest.mark.parametrize("name", LLAMAS)
def test_keys_and_values_in_8_bits_are_those_of_the_paged_runner(name: str) -> None:
    """Up to an integer that rounds the other way; the 8 bits themselves move the logits by more."""
    model = tiny_with_packed_weights(name)
    pool = KVPool(ROWS * CONTEXT // PAGE_SIZE, kv_dtype=INT8)
    paged = PagedRunner(model, pool, max_sequences=ROWS, context=CONTEXT)
    steps = [{0: 7, 2: 64}, {0: 1, 1: 2, 2: 1, 3: 16}, {0: 32, 1: 1, 2: 5, 3: 1, 4: 1}]
    expected = torch.cat(compute_steps(paged, steps))
    fused = torch.cat(compute_steps(runner(model, kv_dtype=INT8), steps))
    exact = torch.cat(compute_steps(runner(model), steps))
    loss, difference = (fused - exact).abs().max(), (fused - expected).abs().max()
    assert difference < 1e-3 * expected.std() < loss < 0.15 * expected.std()


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("name", ("gemma2", "mistral"))
def test_a_row_gets_the_same_bits_with_pages_of_its_window_alone(name: str, kv_dtype: str) -> None:
    model = tiny_with_packed_weights(name)
    windowed = runner(model, (WindowGroup(model.config.sliding_window, ROWS * PAGES),), kv_dtype)
    steps = [{0: 7, 2: 64}, {0: 1, 1: 2, 2: 1, 3: 16}, {0: 32, 1: 1, 2: 5, 3: 1, 4: 1}]
    for ours, expected in zip(
        compute_steps(windowed, steps), compute_steps(runner(model, kv_dtype=kv_dtype), steps), strict=True
    ):
        assert torch.equal(ours, expected)
    groups = [windowed.pool.layers[layer.attention].group for layer in windowed.spec.layers]
    assert groups == [bool(layer.window) for layer in windowed.spec.layers] and 1 in groups
    assert groups == [windowed.native_model.layer[index].group for index in range(len(groups))]


@pytest.mark.parametrize("name", LLAMAS)
def test_bfloat16_is_no_further_from_float32_than_in_transformers(name: str) -> None:
    """Compares mean errors over all tokens, with the same weights; up to a tenth more is chance."""
    model = tiny(name).bfloat16()
    ids = [torch.tensor([text]) for text in texts()]
    with torch.inference_mode():
        plain = torch.cat([model(each).logits[0] for each in ids]).float()
        exact = torch.cat([model.float()(each).logits[0] for each in ids])
    ours = torch.cat(
        compute_steps(
            runner(tiny_with_packed_weights(name, torch.bfloat16)),
            [dict(enumerate(map(len, texts())))],
        )
    )
    assert (ours - exact).abs().mean() < 1.1 * (plain - exact).abs().mean()


def test_the_buffer_for_few_logits_is_reused() -> None:
    served = runner(tiny_with_packed_weights("llama"))
    batch = make_batch((5, 6), (0, 2), (0,), (0,), (1,), page_table=((0,),), page_size=PAGE_SIZE)
    assert served.forward(batch).data_ptr() == served.forward(batch).data_ptr()
    assert served.forward(batch).shape == (1, VOCAB)


def test_a_cleared_page_is_zeroed() -> None:
    served = runner(tiny_with_packed_weights("llama"))
    served.forward(make_batch((5,), (0, 1), (0,), (0,), (0,), page_table=((3,),), page_size=PAGE_SIZE))
    pages = served.pool.layers[served.spec.layers[1].attention]
    assert pages.keys[3].any()
    served.forward(
        make_batch((5,), (0, 1), (0,), (0,), (0,), (Clear(3),), page_table=((2,),), page_size=PAGE_SIZE)
    )
    assert not pages.keys[3].any() and not pages.values[3].any()


def test_the_torch_model_computes_the_same_after_native_steps() -> None:
    model, ids = tiny_with_packed_weights("llama"), torch.tensor([texts()[0]])
    served = runner(model)
    with torch.inference_mode():
        before = model(ids).logits
        compute_steps(served, [{0: 40}])
        assert torch.equal(model(ids).logits, before)


def test_a_fused_runner_goes_on_with_what_a_paged_runner_wrote_into_their_pool() -> None:
    model = tiny_with_packed_weights("llama")
    spec, pool, token_ids = extract_spec(model, CONTEXT), KVPool(ROWS * PAGES), texts()[0]
    alone = FusedRunner(model, spec, KVPool(ROWS * PAGES), max_sequences=ROWS, context=CONTEXT)
    (expected, *_) = compute_steps(alone, [{0: 40}])
    paged = PagedRunner(model, pool, max_sequences=ROWS, context=CONTEXT)
    fused = FusedRunner(model, spec, pool, max_sequences=ROWS, context=CONTEXT)
    pages = range(PAGES)
    logits = []
    for served, start, end in ((paged, 0, 9), (fused, 9, 17), (paged, 17, 18), (fused, 18, 40)):
        batch = make_batch(
            token_ids[start:end],
            (0, end - start),
            (start,),
            (0,),
            range(end - start),
            page_table=(pages,),
            page_size=PAGE_SIZE,
        )
        logits.append(served.forward(batch).clone())
    assert (torch.cat(logits) - expected).abs().max() < 1e-4 * expected.std()
    assert len(pool.layers) == model.config.num_hidden_layers
