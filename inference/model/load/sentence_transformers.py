"""How a model makes embeddings, as the files of sentence-transformers beside it say.

modules.json lists the modules, each with the folder of its config.json; config_sentence_transformers.json has
the prompts (sentence-transformers, base/model.py and sentence_transformer/modules). Knows files; no tensors.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inference import untrusted_json
from inference.errors import error_line, short, without_folders
from inference.model.batch import Pooling

MODULES, PROMPTS, CONFIG = "modules.json", "config_sentence_transformers.json", "config.json"
TRANSFORMER = "sentence_bert_config.json"
POOLING_MODE = "pooling_mode"
# Their names in the config of a pooling module, which has a bool for each; newer files have the mode itself.
MODES: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
SERVED_MODES: Mapping[str, Pooling] = {"mean": "mean", "lasttoken": "last"}
FOLDER = re.compile(r"[\w-]*")  # of a module's config, inside of the model's
SERVED_MODULES = ("Transformer", "Pooling", "Normalize")  # vectors have length 1 anyway


@dataclass(frozen=True, slots=True)
class EmbeddingMethod:
    """How embeddings are made.

    pooling              of which hidden states of a text
    adds_special_tokens  a text gets all special tokens of the tokenizer; False: as a prompt does
    prompt               text in front of each text
    why_not              why the server cannot make them; empty if it can
    """

    pooling: Pooling = "mean"
    adds_special_tokens: bool = False
    prompt: str = ""
    why_not: str = ""


GENERATOR = EmbeddingMethod()


def read_embedding_method(folder: Path) -> EmbeddingMethod:
    """The method of the model in `folder`; GENERATOR without files of sentence-transformers."""
    if not (folder / MODULES).is_file():
        return GENERATOR
    try:
        modules = list(read_modules(folder))
        prompt = default_prompt(folder)
        method = method_of(folder, modules)
    except (OSError, ValueError) as error:
        why = without_folders(error_line(error))
        return EmbeddingMethod(why_not=f"its files of sentence-transformers cannot be read: {why}")
    return replace(method, prompt=prompt)


def method_of(folder: Path, modules: list[tuple[str, str]]) -> EmbeddingMethod:
    """The method of modules: (name of the class, path in the folder). Raises OSError, ValueError."""
    names = [name for name, _ in modules]
    unknown = next((name for name in names if name not in SERVED_MODULES), None)
    if unknown:
        return EmbeddingMethod(why_not=f"it has a module {unknown[:80]}, which is not served")
    if writes_messages(folder):
        return EmbeddingMethod(why_not="it renders each text with its chat template, which is not served")
    paths = [path for name, path in modules if name == "Pooling"]
    if len(paths) != 1:
        return EmbeddingMethod(why_not=f"it has {len(paths)} modules that pool hidden states")
    modes = pooling_modes(untrusted_json.read_json_object(folder / paths[0] / CONFIG))
    if len(modes) != 1 or modes[0] not in SERVED_MODES:
        stated = " and ".join(modes) or "nothing"
        return EmbeddingMethod(why_not=f"it pools {stated[:80]}; served are {' and '.join(SERVED_MODES)}")
    return EmbeddingMethod(pooling=SERVED_MODES[modes[0]], adds_special_tokens=True)


def read_modules(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (name of the class, path in the folder) of each module. Raises OSError, ValueError."""
    listed = untrusted_json.parse_json((folder / MODULES).read_text("utf-8"))
    for module in listed if isinstance(listed, list) else [listed]:
        kind, path = (module.get("type"), module.get("path")) if isinstance(module, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(path, str) or not FOLDER.fullmatch(path):
            raise ValueError(f"{MODULES} has a module {short(module)}")
        yield kind.rpartition(".")[2], path


def pooling_modes(config: Mapping[str, Any]) -> list[str]:
    """What a pooling module's config chooses; several are concatenated."""
    if POOLING_MODE in config:
        named = config[POOLING_MODE]
        return [str(each) for each in (named if isinstance(named, list) else [named])]
    return [mode for key, mode in MODES.items() if config.get(key)]


def writes_messages(folder: Path) -> bool:
    """Whether a text becomes a message of a chat. Raises OSError, ValueError."""
    if not (folder / TRANSFORMER).is_file():
        return False
    return "message" in (untrusted_json.read_json_object(folder / TRANSFORMER).get("modality_config") or ())


def default_prompt(folder: Path) -> str:
    """The prompt of texts without a prompt's name. Raises OSError, ValueError."""
    if not (folder / PROMPTS).is_file():
        return ""
    config = untrusted_json.read_json_object(folder / PROMPTS)
    prompts, name = config.get("prompts") or {}, config.get("default_prompt_name")
    prompt = prompts.get(name, "") if isinstance(prompts, Mapping) and isinstance(name, str) else ""
    if not isinstance(prompt, str):
        raise ValueError(f"{PROMPTS} has a prompt {short(prompt)}")
    return prompt
