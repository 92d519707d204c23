"""The chat template is rendered before anything is fetched: what it supports, or what is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.model import chat_template
from hub.repository import Repository
from hub.resolve import from_folder
from inference.finding import Finding
from tests.fakes import fake_hub
from tests.tiny_models import tiny

Planner = Callable[..., Plan]
LookUp = Callable[..., Repository]

EACH = "{% for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}"
TOOLS = "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}{% endfor %}"
CALLS = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{% endfor %}{% endfor %}"
)


@pytest.fixture
def check_template(tmp_path: Path, planned: Planner, machine: Machine) -> Callable[..., Finding]:
    """The finding for a folder with this template, in its own file or in tokenizer_config.json."""

    def judge(text: Any, inside: bool = False, **settings: Any) -> Finding:
        folder = tiny.llama(tmp_path / "model")
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        if inside:
            settings["chat_template"] = text
        elif text:
            (folder / "chat_template.jinja").write_text(text)
        tiny.edit(folder / "tokenizer_config.json", **settings)
        finding = chat_template.check(planned(from_folder("model", folder)), machine)
        assert finding and finding.ok
        return finding

    return judge


CheckTemplate = Callable[..., Finding]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TOOLS + CALLS, "supports system messages, several turns, tools, tool results"),
        (EACH, "supports system messages, several turns; tools, tool results as plain text"),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + EACH,
            "supports several turns; system messages, tools, tool results as plain text",
        ),
        (
            "{{ messages[-1].content }}",
            "supports one message; system messages, several turns, tools, tool results as plain text",
        ),
        (
            "{% for message in messages %}{{ message.content[0].text }}{% endfor %}",
            "supports system messages, several turns; tools, tool results as plain text",
        ),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_a_template_supports_is_reported(
    check_template: CheckTemplate, text: str, expected: str, inside: bool
) -> None:
    assert check_template(text, inside).have == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n{% if messages %}", "broken, line 3: Unexpected end of template"),
        ("a\n{{ messages[0].nothing.more }}", "broken, line 2: "),
        ("\n{{ raise_exception('never') }}", "broken, line 2: never"),
        ("{{ messages | unheard_of }}", "broken, line 1: No filter named 'unheard_of'"),
        ("Hello", "broken, it leaves out the user's message"),
    ],
)
def test_a_broken_template_is_reported_with_its_line(
    check_template: CheckTemplate, text: str, expected: str
) -> None:
    finding = check_template(text)
    assert finding.have.startswith(expected)
    assert finding.have.endswith("chat requests are refused, completions work")
    assert "TOKENIZER_CONFIG_PATH" in finding.fix


def test_without_a_template_turns_are_plain_text(check_template: CheckTemplate) -> None:
    assert check_template("").have == "none: turns are formatted as User: and Assistant:"


def test_a_separate_template_for_tools_is_used_for_them(check_template: CheckTemplate) -> None:
    several = [{"name": "default", "template": EACH}, {"name": "tool_use", "template": TOOLS + EACH}]
    assert "tools," in check_template(several, inside=True).have.partition(";")[0] + ","


def test_special_tokens_are_defined(check_template: CheckTemplate) -> None:
    text = "{{ bos_token + eos_token }}" + EACH
    assert check_template(text, bos_token="<s>", eos_token={"content": "</s>"}).have.startswith("supports")
    assert check_template(text, bos_token=None, eos_token=None).have.startswith("supports")


def test_another_tokenizer_config_replaces_it(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"chat_template": EACH}))
    finding = chat_template.check(planned(tokenizer_config_path=other), machine)
    assert finding and finding.have.startswith("supports system messages, several turns;")


def test_a_template_of_its_own_replaces_it(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    (tmp_path / "chat.jinja").write_text(EACH)
    for template in (EACH, str(tmp_path / "chat.jinja")):
        finding = chat_template.check(planned(chat_template=template), machine)
        assert finding and finding.have.startswith("supports system messages, several turns;")


def test_a_template_file_that_does_not_exist_is_refused(planned: Planner, machine: Machine) -> None:
    finding = chat_template.check(planned(chat_template="chatml"), machine)
    assert finding and not finding.ok and "CHAT_TEMPLATE must be the path of a readable file" in finding.have
    assert finding.fix.startswith("CHAT_TEMPLATE = ")


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON that can be read: Expecting"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "is not JSON that can be read: it is nested deeper than 100"),
        ("[]", "is not a JSON object"),
        ('{"bos_token": 5}', "Special token bos_token has to be"),
    ],
)
def test_settings_that_no_tokenizer_loads_with_are_refused_before_the_download(
    tiny_repo: fake_hub.Repo,
    look_up: LookUp,
    planned: Planner,
    machine: Machine,
    file: str,
    text: str,
    message: str,
) -> None:
    (tiny_repo.folder / "tokenizer_config.json").unlink()
    (tiny_repo.folder / file).write_text(text)
    finding = chat_template.check(planned(look_up()), machine)
    assert finding and not finding.ok and message in finding.have


def test_an_unreadable_tokenizer_config_is_refused(
    tmp_path: Path, planned: Planner, machine: Machine
) -> None:
    (tmp_path / "deep.json").write_text("[" * 5000)
    for name, message in (("none.json", "No such file"), ("deep.json", "nested deeper")):
        finding = chat_template.check(planned(tokenizer_config_path=tmp_path / name), machine)
        assert finding and not finding.ok and message in finding.have


def test_it_is_rendered_before_the_tokenizer_is_fetched(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    finding = chat_template.check(planned(look_up()), machine)
    assert finding and finding.have.startswith("supports")
    assert not fake.gets_of("tokenizer.json")


def test_a_config_too_large_for_a_preflight_is_read_after_the_download(
    fake: fake_hub.FakeHub, tiny_repo: fake_hub.Repo, look_up: LookUp, planned: Planner, machine: Machine
) -> None:
    (tiny_repo.folder / "chat_template.jinja").unlink()
    tiny.edit(tiny_repo.folder / "tokenizer_config.json", chat_template=EACH, filler="x" * 2_000_000)
    finding = chat_template.check(planned(look_up()), machine)
    assert finding and finding.have == (
        "not checked yet: tokenizer_config.json of 2.0 MB is read after the fetch"
    )
    assert not fake.gets_of("tokenizer_config.json")


def test_the_loaded_tokenizer_supports_the_same(tmp_path: Path, planned: Planner) -> None:
    from transformers import AutoTokenizer

    from inference.text.chat_template import ChatTemplate

    source = planned().repository
    assert source.metadata_folder
    first, loaded = (
        ChatTemplate(chat_template.stub_tokenizer(source.metadata_folder, None)),
        ChatTemplate(AutoTokenizer.from_pretrained(source.metadata_folder)),
    )
    assert chat_template.describe_support(first) == chat_template.describe_support(loaded)
    talk = [{"role": "user", "content": "Hi"}]
    assert first.tokenizer.apply_chat_template(talk, tokenize=False) == loaded.tokenizer.apply_chat_template(
        talk, tokenize=False
    )


@pytest.mark.parametrize(
    ("inside", "file"), [(False, "chat_template.jinja"), (True, "tokenizer_config.json")]
)
def test_a_template_without_end_is_reported_with_its_file(
    check_template: CheckTemplate, inside: bool, file: str
) -> None:
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    finding = check_template(loop, inside)
    assert f"broken, {file}: it takes more than" in finding.have
    assert "chat requests are refused, completions work" in finding.have
