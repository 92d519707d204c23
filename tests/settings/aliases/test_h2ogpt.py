"""h2oGPT's flags: those of settings, and those about the model of --inference-server."""

import pytest

from settings.flags import parse
from settings.schema import BadSetting
from settings.sources import resolve
from tests.settings.parsed_settings import CONFIG


def test_the_flags_of_one_model_on_a_server_are_an_entry() -> None:
    line = (
        "--inference_server=vllm:h:8000 --base_model=acme/chat --prompt_type=human_bot --max_seq_len=512 "
        "--max_new_tokens=30 --max_max_new_tokens=40"
    )
    settings = resolve([CONFIG, parse(line.split()).flags])
    (model,) = settings.models.remote
    assert (model.upstream_name, model.server.url) == ("acme/chat", "http://h:8000/v1")
    assert (model.prompt_type, model.context, model.max_answer_tokens) == ("human_bot", 512, 40)
    assert settings.default_max_tokens == 30


def test_a_prompt_type_is_for_a_model_on_a_server() -> None:
    with pytest.raises(BadSetting, match="--prompt-type human_bot: it is for a model at --inference-server"):
        resolve([CONFIG, parse(["--base_model=models/demo", "--prompt-type=human_bot"]).flags])
