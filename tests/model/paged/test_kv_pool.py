"""The pages of a model's layers, by cache group."""

import pytest
import torch

from inference.model.batch import Clear, Swap, make_batch
from inference.model.kv_cost import KVCost, WindowGroup
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool
from inference.model.paged.runner import PagedRunner
from tests.model.window_tables import with_window_table
from tests.tiny_models.families import tiny

GROUP = WindowGroup(6, 3)
KEY_BYTES = 2 * 8 * 4  # KV heads, width, float32


def probed_pool(family: str, *window_groups: WindowGroup) -> KVPool:
    pool = KVPool(8, window_groups=window_groups)
    PagedRunner(tiny(family), pool, max_sequences=2, context=64).probe()
    return pool


def test_layers_of_a_window_have_the_pages_of_their_group_a_padding_page_and_a_null_page() -> None:
    pool = probed_pool("gemma2", GROUP)
    layers = list(pool.layers.values())
    assert [(kv.window, kv.group, len(kv.keys)) for kv in layers] == [(6, 1, 3 + 2), (None, 0, 8 + 1)]
    assert [pool.num_pages_of(group) for group in pool.groups] == [8, 3]
    assert GROUP.null_page == len(layers[0].keys) - 1


@pytest.mark.parametrize("window_groups", [(), (WindowGroup(7, 3),)])
def test_layers_without_a_group_have_all_pages(window_groups: tuple[WindowGroup, ...]) -> None:
    pool = probed_pool("gemma2", *window_groups)
    assert [(kv.window, kv.group, len(kv.keys)) for kv in pool.layers.values()] == [(6, 0, 9), (None, 0, 9)]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("llama", KVCost(2 * 2 * KEY_BYTES)),
        ("mistral", KVCost(windowed=((6, 2 * 2 * KEY_BYTES),))),
        ("gemma2", KVCost(2 * KEY_BYTES, windowed=((6, 2 * KEY_BYTES),))),
    ],
)
def test_the_cost_of_a_token_is_counted_by_window(family: str, expected: KVCost) -> None:
    assert probed_pool(family).cost() == probed_pool(family, GROUP).cost() == expected


@torch.inference_mode()
def test_a_page_is_cleared_in_the_layers_of_its_group() -> None:
    pool = probed_pool("gemma2", GROUP)
    windowed, full = pool.layers.values()
    for kv in (windowed, full):
        kv.keys.fill_(1), kv.values.fill_(1)
    pool.apply([Clear(2), Clear(0, 1), Clear(1, 1)])
    assert [bool(page.any()) for page in windowed.keys] == [False, False, True, True, True]
    assert [bool(page.any()) for page in full.values] == [True, True, False, *[True] * 6]
    with pytest.raises(AssertionError, match="never moved"):
        pool.apply([Swap(0, 1, 2)])


@pytest.mark.parametrize("family", ["gemma2", "mistral", "gpt_oss"])
@torch.inference_mode()
def test_chunks_with_pages_of_the_window_alone_give_the_logits_of_the_whole_prompt(family: str) -> None:
    model, group = tiny(family), WindowGroup(6, 8)
    runner = PagedRunner(model, KVPool(8, window_groups=(group,)), max_sequences=2, context=64)
    ids = torch.arange(3, 63)
    pages, logits = [5, 2, 7, 0], []
    for start, end in ((0, 7), (7, 30), (30, 31), (31, 58), (58, 60)):
        num_pages = -(-end // PAGE_SIZE)
        batch = make_batch(
            ids[start:end].tolist(),
            (0, end - start),
            (start,),
            (0,),
            range(end - start),
            page_table=(pages[:num_pages],),
            page_size=PAGE_SIZE,
        )
        logits.append(runner.forward(with_window_table(batch, group, PAGE_SIZE)))
    expected = model(ids[None]).logits[0]
    assert (torch.cat(logits) - expected).abs().max() < 1e-4 * expected.std()
