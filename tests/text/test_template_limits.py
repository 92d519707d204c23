"""Templates that never end, or fill the memory, are refused; all others write what they wrote before."""

import gc
import time
import weakref
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

from inference.errors import BadRequest
from inference.text.sandbox.environment import BoundedEnvironment
from inference.types import Message
from tests.text.templates import FIRST_SYSTEM_ONLY, FREE, TOOLED, chat

DEMO = Path(__file__).parent.parent.parent / "models/demo/chat_template.jinja"
DOUBLED_LIST = (
    "{% set ns = namespace(x=['a'], y=['a']) %}"
    "{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)
DOUBLED_TUPLE = (
    "{% set ns = namespace(x=('a',)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"
)
HOSTILE = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) if false %}{% endfor %}{% for i in range(99999) if false %}{% endfor %}",
    "{% for x in [1, 1] recursive %}{% if loop.depth < 60 %}{{ loop([1, 1]) }}{% endif %}{% endfor %}",
    "{% macro m(n) %}{{ m(n - 1) ~ m(n - 1) if n else '' }}{% endmacro %}{{ m(60) }}",
    "{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}",
    "{{ 10**(10**9) }}",
    "{{ 'a' * 10**10 }}",
    "{% set ns = namespace(x=2) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    DOUBLED_LIST + "{{ ns.x }}",
    DOUBLED_LIST + "{{ ns.x | tojson }}",
    DOUBLED_LIST + "{{ ns.x == ns.y }}",
    DOUBLED_LIST + "{{ [ns.x] | map('string') | join }}",
    DOUBLED_TUPLE + "{{ {ns.x: 1} }}",
    DOUBLED_TUPLE + "{{ messages[0][ns.x] }}",
    DOUBLED_TUPLE + "{{ raise_exception(ns.x) }}",
    "{{ 'a' | center(10**10) }}",
    "{{ 'a'.zfill(10000000000) }}",
    "{{ ('\n' * 1000000) | indent(1000000) }}",
    "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
    "{{ ('b' * 1000000).join('a' * 1000000) }}",
    "{{ range(99999) | map('string') | join('b' * 1000000) }}",
    "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}",
    "{{ '%10000000000d' % 5 }}",
    "{{ '%*d' % (10**10, 5) }}",
    "{{ '{:10000000000}'.format(5) }}",
    "{{ '{:{}}'.format(5, 10**10) }}",
    "{{ ('{:10000000000}' | attr('format'))(5) }}",
    "{{ ([[1] * 100] * 50000) | sum(start=[]) }}",
    "{{ [1] | batch(10**10, 'x') | list }}",
    "{{ 5 | round(-1000000000) }}",
    "{% set xs = range(99999) | list %}{{ xs | reject('in', xs) | list }}",
    "{% set xs = range(99999) | list %}{{ (xs + [1]) in [xs + [2]] * 50000 }}",
    "{{ ('<a>' * 300000) | striptags }}",
    "{% set ns = namespace(x=[]) %}{% set s = 'a' * 4000000 %}"
    "{% for i in range(90000) %}{% set ns.x = ns.x + [s[1:]] %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}"
    "{% for i in range(90000) %}{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}",
    "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "{{ a }}" * 60_000,
)
LONG_CHAT = [Message(role, f"{role} <&> {i} é日 " * 40) for i in range(300) for role in ("user", "assistant")]
EXPRESSIONS = (
    "{{ messages | length }} {{ messages[1:] | map(attribute='role') | join(', ') }}"
    " {{ messages[-1]['role'] }}",
    "{{ 7 * 6 }} {{ 2 ** 10 }} {{ 7 % 4 }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none }} {{ 1.5 + 2 }}",
    "{{ '%s is %d' % ('a', 5) }} {{ '%05.2f' | format(2.5) }} {{ '{:>5}|{}'.format('a', [1]) }}",
    "{{ 'a\nb' | indent }} {{ 'abc' | center(9) }} {{ 'a-b'.replace('-', '+') }}"
    " {{ 'a-b' | replace('-', '') }}",
    "{{ {'b': [1, none], 'a': 'é<'} | tojson(indent=2) }} {{ {'b': 1, 'a': 2} | dictsort }}"
    " {{ {1: 2}.items() | list }}",
    "{{ [3, 1, 2] | sort | join }} {{ [1, 2, 3] | batch(2, 0) | list }} {{ [1, 2] | sum }}"
    " {{ 2.7 | round | int }}",
    "{{ 'b' in 'abc' }} {{ [1] in [[1]] }} {{ 1 not in [2] }} {{ [1] == [1] }} {{ 1 < 2 < 3 }}"
    " {{ x is defined }}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }"
    "}{{ loop.last }}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{% set x %"
    "}{{ m(3, b=4) }}!{% endset %}{{ x | upper }}",
    "{% for x in messages | selectattr('role', 'equalto', 'user') %"
    "}{{ x.content | trim | length }},{% endfor %}",
    "{% set ns = namespace(i=0) %}{% for m in messages %}{% set ns.i = ns.i + 1 %}{% endfor %}{{ ns.i }}",
    "{% for g in messages | groupby('role') %}{{ g.grouper }}{{ g.list | length }}{% endfor %"
    "}{{ undefined_name }}",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}{{ 'a,b'.split(',') }}{{ 'x y' | title }}",
)


@pytest.mark.parametrize("template", HOSTILE)
def test_a_template_without_end_is_refused_soon(template: str) -> None:
    started = time.thread_time()
    hostile = chat(template)
    with pytest.raises(BadRequest, match=r"template.*: it (takes|handles|computes|formats|nests|has|is too)"):
        hostile.render([Message("user", "Hi")])
    assert time.thread_time() - started < 10
    assert hostile.limit_error


def test_a_loop_that_only_some_messages_start_is_refused_too() -> None:
    conditional = chat(
        "{% if 'boom' in messages[0].content %}" + HOSTILE[0] + "{% endif %}{{ messages[0].content }}"
    )
    assert not conditional.limit_error
    assert conditional.render([Message("user", "Hi")]).text == "Hi"
    with pytest.raises(BadRequest, match=r"it takes more than \d+ steps"):
        conditional.render([Message("user", "boom")])


@pytest.mark.parametrize(
    "template",
    [FREE, FIRST_SYSTEM_ONLY, TOOLED, DEMO.read_text(), *EXPRESSIONS],
)
@pytest.mark.parametrize("num_messages", [1, 3, 599])
def test_all_other_templates_write_the_same_text(
    template: str, num_messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"role": message.role, "content": message.content} for message in LONG_CHAT[:num_messages]]

    def render(environment: type[ImmutableSandboxedEnvironment]) -> str:
        monkeypatch.setattr(chat_template_utils, "ImmutableSandboxedEnvironment", environment)
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        return str(compiled.render(messages=messages, tools=None, add_generation_prompt=True))

    assert render(BoundedEnvironment) == render(ImmutableSandboxedEnvironment)


def test_transformers_compiles_templates_in_the_bounded_environment() -> None:
    compiled = chat_template_utils._compile_jinja_template(FREE)
    assert isinstance(compiled.environment, BoundedEnvironment)


def test_a_template_may_compare_every_pair_of_messages() -> None:
    pairs = chat(
        "{% for a in messages %}{% for b in messages %}{% if a.role == b.role %}{% endif %}{% endfor %}"
        "{{ a.content }}{% endfor %}"
    )
    assert pairs.render(LONG_CHAT).text == "".join(str(message.content) for message in LONG_CHAT)


def test_a_template_may_build_the_prompt_piece_by_piece() -> None:
    accumulating = chat(
        "{% set ns = namespace(text='') %}"
        "{% for m in messages %}{% set ns.text = ns.text ~ m.content %}{% endfor %}{{ ns.text }}"
    )
    assert accumulating.render(LONG_CHAT).text == "".join(str(message.content) for message in LONG_CHAT)


class Conversation(list[object]):
    """A list that may have weak references."""


def test_a_rendered_conversation_is_freed_without_a_garbage_collection() -> None:
    template = BoundedEnvironment().from_string("{% macro m(n) %}{{ n }}{% endmacro %}{{ m(messages[0]) }}")
    gc.disable()
    try:
        messages = Conversation(["hi"])
        assert template.render(messages=messages) == "hi"
        reference = weakref.ref(messages)
        del messages
        assert reference() is None
    finally:
        gc.enable()
