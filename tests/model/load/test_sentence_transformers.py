"""How a model makes embeddings is read from its files of sentence-transformers, or refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.model.batch import Pooling
from inference.model.load.sentence_transformers import GENERATOR, EmbeddingMethod, read_embedding_method

PREFIX = "sentence_transformers.models."
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": PREFIX + "Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": PREFIX + "Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": PREFIX + "Normalize"},
]
DENSE = {"idx": 3, "name": "3", "path": "3_Dense", "type": PREFIX + "Dense"}
LAST = {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True, "include_prompt": True}
PROMPTS = {"prompts": {"query": "Query: ", "document": ""}, "default_prompt_name": None}


def method(
    folder: Path, pooling: Any = LAST, modules: Any = MODULES, prompts: Any = None, modalities: Any = None
) -> EmbeddingMethod:
    files = {"modules.json": modules, "1_Pooling/config.json": pooling}
    files |= {} if prompts is None else {"config_sentence_transformers.json": prompts}
    files |= {} if modalities is None else {"sentence_bert_config.json": {"modality_config": modalities}}
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return read_embedding_method(folder)


def test_a_text_generator_has_no_such_files(tmp_path: Path) -> None:
    assert read_embedding_method(tmp_path) == GENERATOR == EmbeddingMethod()


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (LAST, "last"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode": "lasttoken", "embedding_dimension": 32}, "last"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_the_pooled_tokens_are_those_of_the_config(
    tmp_path: Path, config: dict[str, Any], pooling: Pooling
) -> None:
    expected = EmbeddingMethod(pooling=pooling, adds_special_tokens=True)
    assert method(tmp_path, config, prompts=PROMPTS) == expected
    assert method(tmp_path, config, MODULES[:2]) == expected


def test_texts_without_the_name_of_a_prompt_have_the_default_one(tmp_path: Path) -> None:
    named = PROMPTS | {"default_prompt_name": "query"}
    assert method(tmp_path, prompts=named).prompt == "Query: "


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"modules": [*MODULES, DENSE]}, "it has a module Dense, which is not served"),
        ({"modalities": {"text": {}, "message": {}}}, "it renders each text with its chat template"),
        ({"modules": MODULES[:1]}, "it has 0 modules that pool hidden states"),
        ({"pooling": {"pooling_mode_cls_token": True}}, "it pools cls; served are mean and lasttoken"),
        ({"pooling": {"pooling_mode": ["mean", "max"]}}, "it pools mean and max; served are"),
        ({"pooling": {}}, "it pools nothing; served are"),
        ({"pooling": "[]"}, "cannot be read: config.json is not a JSON object"),
        ({"pooling": "{"}, "cannot be read: config.json is not JSON that can be read"),
        ({"modules": "["}, "cannot be read: "),
        ({"modules": {}}, "cannot be read: modules.json has a module {}"),
        ({"modules": [*MODULES[:1], {**MODULES[1], "path": "../1_Pooling"}]}, "modules.json has a module"),
        ({"modules": [*MODULES[:1], {**MODULES[1], "path": ".."}]}, "modules.json has a module"),
        ({"modules": [*MODULES[:1], {**MODULES[1], "path": "none"}]}, "cannot be read: [Errno 2]"),
        ({"prompts": {"prompts": {"a": 5}, "default_prompt_name": "a"}}, "has a prompt 5"),
        ({"prompts": "[" * 300}, "cannot be read: "),
    ],
    ids=str,
)
def test_what_is_not_served_is_said(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    why_not = method(tmp_path, **changes).why_not
    assert why in why_not and str(tmp_path) not in why_not
