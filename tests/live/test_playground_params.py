"""Every parameter of the playground, sent in every dialect that has it: the real server understands it."""

import pytest

from tests.live.browsing import DIALECTS, SENT_TO, Page

pytestmark = pytest.mark.slow

# A value for each parameter, and what it needs besides.
VALUES: dict[str, dict[str, object]] = {
    "top_p": {"top_p": 0.9},
    "top_k": {"top_k": 5},
    "min_p": {"min_p": 0.1},
    "typical_p": {"typical_p": 0.9},
    "tfs": {"tfs": 0.9},
    "top_a": {"top_a": 0.2},
    "contrast": {"contrast": 0.6, "top_k": 4},
    "order": {"order": "top_k\n*"},
    "seed": {"seed": 3},
    "min_tokens": {"min_tokens": 2},
    "stop": {"stop": "\\n\nSunday"},
    "keep_stop": {"keep_stop": True, "stop": "."},
    "stop_regex": {"stop_regex": True, "stop": "[.!]"},
    "stop_matches": {"stop_matches": 2, "stop_regex": True, "stop": "[.!]"},
    "stop_tokens": {"stop_tokens": "5, 6"},
    "ignore_eos": {"ignore_eos": True},
    "truncate": {"truncate": 3},
    "truncate_until": {"truncate_until": " ", "truncate": 3},
    "repetition": {"repetition": 1.2},
    "presence": {"presence": 0.5},
    "frequency": {"frequency": 0.5},
    "ngram": {"ngram": 3},
    "range": {"range": 4, "repetition": 1.2},
    "slope": {"slope": 1.5, "repetition": 1.2},
    "generated": {"generated": "expand", "repetition": 1.2},
    "with_preamble": {"with_preamble": True, "repetition": 1.2},
    "within": {"within": True, "repetition": 1.2},
    "instead": {"instead": "Monday", "repetition": 1.2},
    "bad_words": {"bad_words": "Paris"},
    "bad_first": {"bad_first": "Paris"},
    "only_words": {"only_words": "Paris\nRome"},
    "allowed_tokens": {"allowed_tokens": "300, 301"},
    "bias": {"bias": "300: -5"},
    "watermark": {"watermark": True},
    "n": {"n": 2},
    "logprobs": {"logprobs": 2},
    "show_special": {"show_special": True},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_parameter_is_understood(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    offered = [name for name in VALUES if page.has(name)]
    for name in offered:
        page.browser.execute_script("document.querySelector('#reset').click()")
        for each, value in {"max_tokens": 4, "seed": 1, **VALUES[name]}.items():
            page.set(each, value)
        page.generate("retry" if page.answers else "generate")
        assert (page.find("#notice").text, name) == ("", name)
    sent = [each["postData"] for each in page.requests() if each["url"] == page.url + SENT_TO[dialect]]
    assert len(set(sent)) >= len(offered) >= 6, "each makes another request"


@pytest.mark.parametrize(
    ("dialect", "form", "spec"),
    [
        ("llama_stack", "schema", '{"type": "boolean"}'),
        ("llama_stack", "grammar", 'start: "yes"'),
        ("openai", "json", ""),
        ("openai", "schema", '{"type": "boolean"}'),
        ("openai", "regex", "[ab]{3}"),
        ("openai", "grammar", 'start: "yes"'),
        ("tgi", "schema", '{"type": "object", "properties": {"a": {"type": "boolean"}}}'),
        ("tgi", "regex", "[ab]{3}"),
    ],
)
def test_every_form_is_understood(page: Page, dialect: str, form: str, spec: str) -> None:
    page.choose("dialects", dialect)
    for name, value in {"form": form, "spec": spec, "max_tokens": 12}.items():
        page.set(name, value)
    (answer,) = page.generate()
    assert page.find("#notice").text == "" and answer
