"""Text that a model writes by itself: from beginnings of prompts, with their common ending, and answers."""

from random import Random

import torch

from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.written_text import (
    MAX_ANSWER_TOKENS,
    MAX_GIVEN_TOKENS,
    MAX_PROMPT_TOKENS,
    common_ending,
    end_tokens,
    longest_text,
    sample,
    until,
    write_answers,
    write_prompts,
)

PROMPTS = [[1, 2, 10, 11, 8, 9], [1, 2, 12, 8, 9], [1, 2, 13, 14, 15, 8, 9]]
ENDING = [8, 9]


def test_what_all_prompts_end_with_is_the_ending() -> None:
    assert common_ending(PROMPTS) == ENDING
    assert common_ending([[1, 2, 3], [1, 2, 4]]) == []


def test_one_prompt_alone_does_not_show_where_its_ending_begins() -> None:
    assert common_ending(PROMPTS[:1]) == common_ending([PROMPTS[0]] * 3) == []


def test_prompts_begin_as_those_of_the_job_before_their_ending(base: BaseModel) -> None:
    written = write_prompts(base, PROMPTS, ENDING, 40, Random(0))
    beginnings = {tuple(text.token_ids[: text.prefix_length]) for text in written}
    allowed = {tuple(prompt[:end]) for prompt in PROMPTS for end in range(1, len(prompt) - 1)}
    assert (1,) in beginnings <= allowed and len(beginnings) > 4
    assert all(8 not in text.token_ids[text.prefix_length :] for text in written)


def test_answers_follow_the_ending(base: BaseModel) -> None:
    prompts = write_prompts(base, PROMPTS, ENDING, 6, Random(0))
    for text in write_answers(base, prompts, ENDING):
        prompt = next(each for each in prompts if text.token_ids[: len(each.token_ids)] == each.token_ids)
        length = len(prompt.token_ids)
        assert text.token_ids[length : length + 2] == ENDING and text.prefix_length == prompt.prefix_length
        assert len(text.token_ids) <= longest_text(max(map(len, PROMPTS)))


def test_a_text_is_written_once(base: BaseModel) -> None:
    (prompt,) = write_prompts(base, [[1]], [], 1, Random(0))
    texts = write_answers(base, [prompt, prompt], [])
    assert len({tuple(text.token_ids) for text in texts}) == len(texts)


def test_long_prompts_are_begun_only(base: BaseModel) -> None:
    written = write_prompts(base, [[1] * 200, [2] * 200], [], 20, Random(0))
    assert max(text.prefix_length for text in written) <= MAX_GIVEN_TOKENS
    assert max(len(text.token_ids) for text in written) <= MAX_GIVEN_TOKENS + MAX_PROMPT_TOKENS


def test_other_rows_of_a_batch_do_not_change_what_is_most_probable(base: BaseModel) -> None:
    """Prompts of other lengths are padded: a sharp model writes the same alone."""
    head = base.causal.get_output_embeddings()
    with torch.no_grad():
        head.weight.mul_(1e4)
    alone, among = sample(base, [[5, 6]], 6), sample(base, [[5, 6], [1, 2, 3, 4, 5]], 6)
    assert alone[0] == among[0] and 0 < len(alone[0]) <= MAX_ANSWER_TOKENS


def test_a_text_ends_with_its_first_end_token(base: BaseModel) -> None:
    assert until([4, 7, 5, 7], {7}) == [4] and until([4, 7, 5], {7}, included=True) == [4, 7]
    base.causal.generation_config.eos_token_id = [3, 2]
    assert end_tokens(base) == {2, 3}
    base.causal.generation_config.eos_token_id = None
    assert end_tokens(base) == set() and len(sample(base, [[1]], 5)[0]) == 5
