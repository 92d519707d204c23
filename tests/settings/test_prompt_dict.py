"""prompt_type and prompt_dict of an entry: what they mean together, and what is refused."""

from typing import Any

import pytest

from settings.entry_values import BadEntry
from settings.model_list import parse_models

ENTRY = {"base_model": "a/b", "inference_server": "vllm:h:8000"}


@pytest.mark.parametrize("prompt_type", ["unknown", -2, "", None])
def test_an_unknown_type_is_none(prompt_type: Any) -> None:
    (model,) = parse_models([ENTRY | {"prompt_type": prompt_type}]).remote
    assert model.prompt_type == ""


@pytest.mark.parametrize("prompt_type", ["custom", -1, None])
@pytest.mark.parametrize("prompt_dict", [{"promptB": "a", "humanstr": "b"}, "{'promptB': 'a'}"])
def test_a_prompt_dict_means_the_type_custom(prompt_type: Any, prompt_dict: Any) -> None:
    (model,) = parse_models([ENTRY | {"prompt_type": prompt_type, "prompt_dict": prompt_dict}]).remote
    assert (model.prompt_type, model.prompt_dict["promptB"]) == ("custom", "a")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"prompt_dict": {"a": "b"}}, "prompt_dict has no key 'a'; the keys are .*PreInstruct"),
        ({"prompt_dict": {"promptB": 5}}, "promptB must be text"),
        ({"prompt_dict": {"terminate_response": "x"}}, "must be a list of texts"),
        ({"prompt_dict": "f()"}, "prompt_dict must be an object of texts"),
        ({"prompt_type": "custom"}, "needs its texts in prompt_dict"),
        ({"prompt_type": "llama2", "prompt_dict": {"promptB": "a"}}, "custom, not llama2"),
    ],
)
def test_a_wrong_prompt_dict_is_refused_with_its_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEntry, match=message):
        parse_models([ENTRY | keys])
