"""The chat template, rendered before anything is fetched: what it takes, or what is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks import template
from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan
from checks.source.find import in_folder
from checks.source.repository import Repository
from tests import hub, tiny

Planner = Callable[..., Plan]
LookUp = Callable[..., Repository]

EACH = "{% for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}"
TOOLS = "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}{% endfor %}"
CALLS = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{% endfor %}{% endfor %}"
)


@pytest.fixture
def judged(tmp_path: Path, planned: Planner, machine: Machine) -> Callable[..., Finding]:
    """The finding for a folder with this template, in a file of its own or in the tokenizer's settings."""

    def judge(text: Any, inside: bool = False, **settings: Any) -> Finding:
        folder = tiny.llama(tmp_path / "model")
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        if inside:
            settings["chat_template"] = text
        elif text:
            (folder / "chat_template.jinja").write_text(text)
        tiny.edit(folder / "tokenizer_config.json", **settings)
        finding = template.check(planned(in_folder("model", folder, code=False)), machine)
        assert finding and finding.ok
        return finding

    return judge


Judged = Callable[..., Finding]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TOOLS + CALLS, "takes system messages, several turns, tools, tools' results"),
        (EACH, "takes system messages, several turns; tools, tools' results as plain words"),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + EACH,
            "takes several turns; system messages, tools, tools' results as plain words",
        ),
        (
            "{{ messages[-1].content }}",
            "takes one message; system messages, several turns, tools, tools' results as plain words",
        ),
        (
            "{% for message in messages %}{{ message.content[0].text }}{% endfor %}",
            "takes system messages, several turns; tools, tools' results as plain words",
        ),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_a_template_takes_is_told(judged: Judged, text: str, told: str, inside: bool) -> None:
    assert judged(text, inside).have == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\n\n{% if messages %}", "broken, line 3: Unexpected end of template"),
        ("a\n{{ messages[0].nothing.more }}", "broken, line 2: "),
        ("\n{{ raise_exception('never') }}", "broken, line 2: never"),
        ("{{ messages | unheard_of }}", "broken, line 1: No filter named 'unheard_of'"),
        ("Hello", "broken, it leaves out what the user says"),
    ],
)
def test_a_broken_template_is_told_with_its_line(judged: Judged, text: str, told: str) -> None:
    finding = judged(text)
    assert finding.have.startswith(told)
    assert finding.have.endswith("chat is refused, completions are not")
    assert "TOKENIZER_CONFIG_PATH" in finding.mend


def test_without_a_template_turns_are_written_plainly(judged: Judged) -> None:
    assert judged("").have == "none: turns are written as User: and Assistant:"


def test_of_several_templates_the_one_for_tools_is_used_for_them(judged: Judged) -> None:
    several = [{"name": "default", "template": EACH}, {"name": "tool_use", "template": TOOLS + EACH}]
    assert "tools," in judged(several, inside=True).have.partition(";")[0] + ","


def test_special_tokens_are_there(judged: Judged) -> None:
    text = "{{ bos_token + eos_token }}" + EACH
    assert judged(text, bos_token="<s>", eos_token={"content": "</s>"}).have.startswith("takes")
    assert judged(text, bos_token=None, eos_token=None).have.startswith("takes")


def test_settings_from_elsewhere_replace_it(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"chat_template": EACH}))
    finding = template.check(planned(tokenizer_config=other), machine)
    assert finding and finding.have.startswith("takes system messages, several turns;")


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON that can be read: Expecting"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "is not JSON that can be read: it is nested deeper than 100"),
        ("[]", "is not a JSON object"),
        ('{"bos_token": 5}', "Special token bos_token has to be"),
    ],
)
def test_settings_with_which_no_tokenizer_loads_are_refused_before_the_download(
    tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine, file: str, text: str, told: str
) -> None:
    (tiny_repo.folder / "tokenizer_config.json").unlink()
    (tiny_repo.folder / file).write_text(text)
    finding = template.check(planned(look_up()), machine)
    assert finding and not finding.ok and told in finding.have


def test_settings_from_elsewhere_that_cannot_be_read_are_refused(
    tmp_path: Path, planned: Planner, machine: Machine
) -> None:
    (tmp_path / "deep.json").write_text("[" * 5000)
    for name, told in (("none.json", "No such file"), ("deep.json", "nested deeper")):
        finding = template.check(planned(tokenizer_config=tmp_path / name), machine)
        assert finding and not finding.ok and told in finding.have


def test_it_is_rendered_before_the_tokenizer_is_fetched(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    finding = template.check(planned(look_up()), machine)
    assert finding and finding.have.startswith("takes")
    assert not fake.got("tokenizer.json")


def test_settings_that_a_verdict_cannot_pay_for_are_left_for_the_fetch(
    fake: hub.Hub, tiny_repo: hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    (tiny_repo.folder / "chat_template.jinja").unlink()
    tiny.edit(tiny_repo.folder / "tokenizer_config.json", chat_template=EACH, filler="x" * 2_000_000)
    finding = template.check(planned(look_up()), machine)
    assert finding and finding.have == (
        "not known yet: tokenizer_config.json of 2.0 MB is read when it is fetched"
    )
    assert not fake.got("tokenizer_config.json")


def test_the_tokenizer_that_is_loaded_takes_the_same(tmp_path: Path, planned: Planner) -> None:
    from transformers import AutoTokenizer

    from inference.text.chat import Chat

    source = planned().repository
    assert source.notes
    first, loaded = (
        Chat(template.stand_in(source.notes, None)),
        Chat(AutoTokenizer.from_pretrained(source.notes)),
    )
    assert template.taken(first) == template.taken(loaded)
    talk = [{"role": "user", "content": "Hi"}]
    assert first.tokenizer.apply_chat_template(talk, tokenize=False) == loaded.tokenizer.apply_chat_template(
        talk, tokenize=False
    )
