"""Bytes of KV memory: what a number of tokens takes, and how many tokens a number of bytes holds."""

from itertools import product

import pytest

from inference.model.kv_cost import SMALL_CHUNK, KVCost, KVLimits, WindowGroup, last_fitting, window_pages

PLAIN = KVCost(100)
GEMMA = KVCost(20, windowed=((64, 100),))  # five layers of six have a window
MISTRAL = KVCost(windowed=((64, 100),))
TWO = KVCost(10, 3, ((16, 40), (64, 60)))
COSTS = (PLAIN, KVCost(100, 70), GEMMA, MISTRAL, TWO)
LIMITS = KVLimits(max_sequences=4, context=2048, max_batch_tokens=128, page_size=16)


def group_bytes(kv_cost: KVCost, num_tokens: int, num_bytes: int, limits: KVLimits) -> int:
    """Bytes of a pool with the window groups of this memory."""
    num_pages = {
        group.window: group.num_pages for group in kv_cost.window_groups(num_tokens, num_bytes, limits)
    }
    return (
        kv_cost.per_row * limits.max_sequences
        + kv_cost.per_token * num_tokens
        + sum(
            size * num_pages.get(window, num_tokens // limits.page_size) * limits.page_size
            for window, size in kv_cost.windowed
        )
    )


def test_without_windows_the_cost_is_that_of_its_tokens_and_rows() -> None:
    kv_cost = KVCost(100, 70)
    assert kv_cost.useful_bytes(50, LIMITS) == 100 * 50 + 70 * 4
    assert kv_cost.sequence_bytes(50, LIMITS) == 100 * 50 + 70
    assert kv_cost.required_bytes(LIMITS) == 100 * 2048 + 70 * 4
    assert kv_cost.max_tokens(100 * 3000 + 70 * 4, LIMITS) == 3000
    assert kv_cost.max_sequence_tokens(100 * 300 + 70, LIMITS) == 300
    assert kv_cost.window_groups(3000, 10**9, LIMITS) == ()


def test_memory_that_is_too_small_holds_no_token() -> None:
    assert KVCost(100, 70).max_tokens(10, LIMITS) == 0
    assert (
        KVCost(100, 70).max_sequence_tokens(69, LIMITS) < 0 <= KVCost(0, 70).max_sequence_tokens(70, LIMITS)
    )


def test_tokens_never_exceed_what_all_rows_can_have() -> None:
    odd = LIMITS._replace(context=2000)
    assert PLAIN.max_tokens(10**9, odd) == odd.max_tokens == 4 * 2000
    assert KVCost().max_tokens(0, LIMITS._replace(context=2001, page_size=16)) == 4 * 2016


@pytest.mark.parametrize("page_size", (1, 4, 16, 256))
@pytest.mark.parametrize("window", (1, 2, 6, 16, 17, 64, 512))
def test_window_pages_are_enough_wherever_the_window_ends(window: int, page_size: int) -> None:
    extents = {
        last // page_size - (last - window + 1) // page_size + 1
        for last in range(window, window + 2 * page_size)
    }
    assert max(extents) == window_pages(window, page_size)


def test_a_token_behind_the_window_takes_memory_only_in_full_attention() -> None:
    row = LIMITS.min_kept_tokens(64)
    assert row == (5 + 1) * 16 + 128  # the window's pages, one that grows, and the tokens of a step
    assert GEMMA.sequence_bytes(2048, LIMITS) == 20 * 2048 + 100 * row
    assert GEMMA.sequence_bytes(50, LIMITS) == 120 * 50


def test_the_layers_of_a_window_hold_what_all_rows_keep() -> None:
    row_tokens = 6 * 16
    assert GEMMA.window_groups(8192, 10**9, LIMITS) == (WindowGroup(64, (4 * row_tokens + 128) // 16),)
    assert GEMMA.useful_bytes(8192, LIMITS) == 20 * 8192 + 100 * (4 * row_tokens + 128)


def test_a_large_step_takes_no_memory_that_a_sequence_needs() -> None:
    """Its prompt is computed in smaller chunks."""
    large = LIMITS._replace(max_batch_tokens=8192, context=8192)
    assert large.min_kept_tokens(64) == 6 * 16 + SMALL_CHUNK
    assert large.kept_tokens(64) == 4 * 6 * 16 + 8192
    assert GEMMA.window_groups(8192, GEMMA.required_bytes(large), large) == (WindowGroup(64, 38),)


def test_a_window_that_saves_nothing_has_no_group() -> None:
    assert not GEMMA.window_groups(400, 10**9, LIMITS)
    assert not KVCost(20, windowed=((2048, 100),)).window_groups(8192, 10**9, LIMITS)


MANY_ROWS = LIMITS._replace(max_sequences=500, context=32_768)
GEMMA_2, GPT_OSS = KVCost(100, windowed=((4096, 100),)), KVCost(100, windowed=((128, 100),))


@pytest.mark.parametrize(
    ("kv_cost", "tokens_gained", "window_share"),
    [
        (
            GEMMA,
            3.5,
            1 / 7,
        ),  # half of the tokens in five layers of six: three and a half times as many in all
        (KVCost(20, windowed=((512, 100),)), 120 / (20 + 100 * 544 / 2048), 544 / 2048),
        (GPT_OSS, 1.5, 1 / 3),
        (GEMMA_2, 1.0, 1.0),  # most sequences are shorter than the window
    ],
)
def test_a_memory_is_divided_for_sequences_of_typical_length(
    kv_cost: KVCost, tokens_gained: float, window_share: float
) -> None:
    every_token, num_bytes = KVCost(kv_cost.per_recent_token), 10**7
    before, after = (cost.max_tokens(num_bytes, MANY_ROWS) for cost in (every_token, kv_cost))
    assert after == pytest.approx(tokens_gained * before, rel=0.01)
    num_pages = {each.num_pages for each in kv_cost.window_groups(after, num_bytes, MANY_ROWS)}
    in_window = 16 * (num_pages.pop() if num_pages else after // 16)
    assert in_window == pytest.approx(window_share * after, rel=0.01)
    assert in_window >= before // 2 - 16, "at least half of the short sequences still fit"


def test_all_rows_keep_their_windows_if_the_bytes_suffice() -> None:
    """Also where fewer tokens are wanted than would fit."""
    [group] = GEMMA.window_groups(2048, GEMMA.useful_bytes(2048, LIMITS), LIMITS)
    assert group.num_pages * 16 == LIMITS.kept_tokens(64) < 2048
    [smaller] = GEMMA.window_groups(2048, GEMMA.useful_bytes(2048, LIMITS) - 1600, LIMITS)
    assert smaller.num_pages == group.num_pages - 1


def test_with_little_memory_the_whole_context_of_one_row_fits() -> None:
    """The window groups divide what it leaves."""
    limits = LIMITS._replace(context=8192)
    required = GEMMA.required_bytes(limits)
    for spare in (0, 5_000, 10_000, 20_000):
        num_bytes = required + spare
        num_tokens = GEMMA.max_tokens(num_bytes, limits)
        [group] = GEMMA.window_groups(num_tokens, num_bytes, limits)
        assert num_tokens == limits.context
        assert group.num_pages * 16 >= limits.min_kept_tokens(64)
        assert 0 <= num_bytes - group_bytes(GEMMA, num_tokens, num_bytes, limits) < 100 * 16
    assert GEMMA.max_tokens(required - 1, limits) < limits.context
    assert KVCost(120).max_tokens(required, limits) < limits.context // 5, "with all tokens kept it would not"


@pytest.mark.parametrize("kv_cost", COSTS)
def test_a_memory_never_takes_more_bytes_than_it_may(kv_cost: KVCost) -> None:
    limits = [
        LIMITS,
        LIMITS._replace(max_sequences=1),
        LIMITS._replace(page_size=256, context=1000, max_sequences=9),
        LIMITS._replace(context=130),
    ]
    for each, num_bytes in product(limits, range(30_000, 900_000, 7_777)):
        num_tokens = kv_cost.max_tokens(num_bytes, each)
        if num_bytes < kv_cost.required_bytes(each):
            continue
        assert each.context <= num_tokens <= each.max_tokens
        assert group_bytes(kv_cost, num_tokens, num_bytes, each) <= num_bytes
        for group in kv_cost.window_groups(num_tokens, num_bytes, each):
            assert window_pages(group.window, each.page_size) < group.num_pages < num_tokens // each.page_size


@pytest.mark.parametrize("num_bytes", (10_000, 50_000, 100_000, 500_000))
def test_windows_hold_at_least_the_tokens_of_full_attention(num_bytes: int) -> None:
    every_token = KVCost(GEMMA.per_recent_token)
    assert GEMMA.max_tokens(num_bytes, LIMITS) >= every_token.max_tokens(num_bytes, LIMITS)
    assert GEMMA.max_sequence_tokens(num_bytes, LIMITS) >= every_token.max_sequence_tokens(num_bytes, LIMITS)


def test_costs_of_layers_add_up() -> None:
    assert KVCost(30, 3, ((16, 40), (64, 160))) == GEMMA + TWO
    assert (GEMMA + TWO) - GEMMA == TWO
    assert GEMMA - GEMMA == KVCost() == TWO - TWO


def test_processes_divide_the_cost() -> None:
    assert TWO.divided_by(2) == KVCost(5, 2, ((16, 20), (64, 30)))
    assert TWO.divided_by(1) == TWO


def test_a_recent_token_is_within_every_window() -> None:
    assert (PLAIN.per_recent_token, TWO.per_recent_token) == (100, 110)


@pytest.mark.parametrize("limit", (-1, 0, 1, 2, 17, 40))
def test_last_fitting_is_the_largest_number_that_fits(limit: int) -> None:
    assert last_fitting(lambda number: number <= limit, 30) == min(limit, 30)
