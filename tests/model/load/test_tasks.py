"""A model that generates no text is refused with what it does: by its type, sections and stored class."""

from typing import Any

import pytest

from inference.model.load.architecture import why_unsupported
from inference.model.load.tasks import task_of_stored_class

IMAGES = "reads images together with text"
ENCODER = "is an encoder"
OWN_CODE = {"model_type": "own", "auto_map": {"AutoConfig": "a.B", "AutoModel": "a.C"}}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "llava"}, IMAGES),
        ({"model_type": "qwen2_5_vl"}, IMAGES),
        ({"model_type": "internvl_chat", "vision_config": {"depth": 1}}, IMAGES),
        (OWN_CODE | {"vision_config": {"depth": 1}}, IMAGES),
        ({"model_type": "speecht5"}, "transcribes speech"),
        ({"model_type": "vit"}, "reads images"),
        ({"model_type": "distilbert"}, ENCODER),
        ({"model_type": "bert", "architectures": ["BertModel"]}, ENCODER),
        ({"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}, ENCODER),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "classifies texts"),
        (OWN_CODE, "has its own code for AutoModel, and none that generates text"),
        ({"model_type": "own"}, "does not know; a newer release may"),
        ({}, "has no model_type in its config.json: fetch the file again"),
    ],
)
def test_the_reason_is_what_the_model_does(config: dict[str, Any], reason: str) -> None:
    assert reason in why_unsupported(config)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        {"model_type": "bert", "is_decoder": True, "architectures": ["BertModel"]},
        {"model_type": "roberta", "architectures": ["RobertaForCausalLM"]},
        {"model_type": "bart", "architectures": ["BartModel"]},
        {"model_type": "gpt2", "architectures": ["GPT2Model"]},
        {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]},
        {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"]},
        {"model_type": "llama", "architectures": None},
        {"model_type": "llama", "architectures": [["LlamaForSequenceClassification"]]},
        {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "a.B"}, "vision_config": {}},
    ],
)
def test_a_model_that_may_generate_text_is_not_refused(config: dict[str, Any]) -> None:
    assert why_unsupported(config) == ""


@pytest.mark.parametrize(
    ("stored_class", "task"),
    [
        ("MistralModel", "computes embeddings: it has no head that predicts the next token"),
        ("MllamaForConditionalGeneration", IMAGES),
        ("MistralForCausalLM", ""),
        ("SomebodysOwnModel", ""),
    ],
)
def test_a_stored_class_has_a_task(stored_class: str, task: str) -> None:
    assert task_of_stored_class({"architectures": [stored_class]}) == task
