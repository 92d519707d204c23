"""Every parameter of the playground is accepted by the real server in every dialect that has it."""

import re

import pytest

from tests.live.pages.browser_page import DIALECTS, SENT_TO, Page

pytestmark = pytest.mark.slow

# A value for each parameter, and the other parameters that it needs.
VALUES: dict[str, dict[str, object]] = {
    "top_p": {"top_p": 0.9},
    "top_k": {"top_k": 5},
    "min_p": {"min_p": 0.1},
    "typical_p": {"typical_p": 0.9},
    "tfs": {"tfs": 0.9},
    "top_a": {"top_a": 0.2},
    "penalty_alpha": {"penalty_alpha": 0.6, "top_k": 4},
    "warpers_order": {"warpers_order": "top_k\n*"},
    "seed": {"seed": 3},
    "min_tokens": {"min_tokens": 2},
    "stop": {"stop": "\\n\nSunday"},
    "include_stop": {"include_stop": True, "stop": "."},
    "stop_regex": {"stop_regex": True, "stop": "[.!]"},
    "stop_matches": {"stop_matches": 2, "stop_regex": True, "stop": "[.!]"},
    "stop_token_ids": {"stop_token_ids": "5, 6"},
    "ignore_eos": {"ignore_eos": True},
    "truncate": {"truncate": 3},
    "truncate_until": {"truncate_until": " ", "truncate": 3},
    "repetition_penalty": {"repetition_penalty": 1.2},
    "presence_penalty": {"presence_penalty": 0.5},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "no_repeat_ngram": {"no_repeat_ngram": 3},
    "penalty_range": {"penalty_range": 4, "repetition_penalty": 1.2},
    "penalty_slope": {"penalty_slope": 1.5, "repetition_penalty": 1.2},
    "penalty_generated": {"penalty_generated": "expand", "repetition_penalty": 1.2},
    "penalty_preamble": {"penalty_preamble": True, "repetition_penalty": 1.2},
    "penalty_clamp": {"penalty_clamp": True, "repetition_penalty": 1.2},
    "penalty_text": {"penalty_text": "Monday", "repetition_penalty": 1.2},
    "bad_words": {"bad_words": "Paris"},
    "bad_words_at_start": {"bad_words_at_start": "Paris"},
    "allowed_words": {"allowed_words": "Paris\nRome"},
    "allowed_token_ids": {"allowed_token_ids": "300, 301"},
    "logit_bias": {"logit_bias": "300: -5"},
    "watermark": {"watermark": True},
    "n": {"n": 2},
    "logprobs": {"logprobs": 2},
    "show_special": {"show_special": True},
}

# The formats of each dialect: kind, specification, and a pattern that the answers match.
FORMATS = {
    "llama_stack": (("schema", '{"type": "boolean"}', "true|false"), ("grammar", 'start: "yes"', "yes")),
    "openai": (
        ("json", "", r"(?s)\S.*"),
        ("schema", '{"type": "boolean"}', "true|false"),
        ("regex", "[ab]{3}", "[ab]{3}"),
        ("grammar", 'start: "yes"', "yes"),
    ),
    "tgi": (
        ("schema", '{"type": "object", "properties": {"a": {"type": "boolean"}}}', r"(?s)\{.*"),
        ("regex", "[ab]{3}", "[ab]{3}"),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_parameter_is_accepted(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    offered = [name for name in VALUES if page.has(name)]
    for name in offered:
        page.browser.execute_script("document.querySelector('#reset').click()")
        for each, value in {"max_tokens": 4, "seed": 1, **VALUES[name]}.items():
            page.set(each, value)
        page.generate("retry" if page.answer_texts else "generate")
        assert (page.text("#notice"), name) == ("", name)
    sent = [each["postData"] for each in page.requests() if each["url"] == page.url + SENT_TO[dialect]]
    assert len(set(sent)) >= len(offered) >= 6, "each parameter changes the request"


def test_words_in_place_of_token_ids_are_refused_by_the_server(page: Page) -> None:
    page.choose("dialects", "openai")
    page.set("stop_token_ids", "5, end")
    page.generate()
    assert "stop_token_ids" in page.find("#notice").text


@pytest.mark.parametrize("dialect", FORMATS)
def test_every_format_is_accepted(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.set("max_tokens", 12)
    for kind, spec, pattern in FORMATS[dialect]:
        page.set("response_format", kind)
        page.set("format_spec", spec)
        (text,) = page.generate("retry" if page.answer_texts else "generate")
        assert (page.text("#notice"), kind) == ("", kind)
        assert re.fullmatch(pattern, text.strip()), (kind, text)
