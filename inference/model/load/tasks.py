"""What models other than text generators do, from transformers' tables of the classes for each task.

Knows names only: of the model types and of the classes that a config.json lists under `architectures`.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

IMAGES = "reads images together with text"
SPEECH = "transcribes speech"
CLASSES = "classifies texts"
GAPS = "is an encoder: it fills gaps in a text, or computes embeddings"
BASE = "computes embeddings: it has no head that predicts the next token"

# A task, and transformers' tables of the classes for it. The first task of a type or class counts.
TABLES: tuple[tuple[str, str], ...] = (
    (IMAGES, "IMAGE_TEXT_TO_TEXT MULTIMODAL_LM VISUAL_QUESTION_ANSWERING DOCUMENT_QUESTION_ANSWERING"),
    (SPEECH, "SPEECH_SEQ_2_SEQ CTC RNNT TDT"),
    ("makes speech or sound", "TEXT_TO_SPECTROGRAM TEXT_TO_WAVEFORM"),
    ("reads images", "IMAGE IMAGE_CLASSIFICATION ZERO_SHOT_IMAGE_CLASSIFICATION OBJECT_DETECTION"),
    ("reads sound", "AUDIO_CLASSIFICATION AUDIO_FRAME_CLASSIFICATION AUDIO_XVECTOR"),
    (GAPS, "MASKED_LM TEXT_ENCODING"),
    (
        CLASSES,
        "SEQUENCE_CLASSIFICATION TOKEN_CLASSIFICATION QUESTION_ANSWERING MULTIPLE_CHOICE "
        "NEXT_SENTENCE_PREDICTION",
    ),
)
# Sections of a config.json: a model with one of them reads more than text.
SECTIONS = {
    "vision_config": IMAGES,
    "visual": IMAGES,
    "vision_tower": IMAGES,
    "mm_vision_tower": IMAGES,
    "audio_config": "reads sound together with text",
}


def table(name: str) -> Mapping[str, Any]:
    """transformers' table of a task: model type → name of the class, or several names."""
    return getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES", {})


def class_names(mapping: Mapping[str, Any]) -> set[str]:
    """The names of all classes in a table."""
    return set(
        chain.from_iterable([value] if isinstance(value, str) else value for value in mapping.values())
    )


TEXT_GENERATORS = class_names(table("CAUSAL_LM")) | class_names(table("SEQ_TO_SEQ_CAUSAL_LM"))
BASE_CLASSES = class_names(modeling_auto.MODEL_MAPPING_NAMES)
TASK_OF_TYPE = {
    kind: task for task, names in reversed(TABLES) for name in names.split() for kind in table(name)
}
TASK_OF_CLASS = {
    class_name: task
    for task, names in reversed(TABLES)
    for name in names.split()
    for class_name in class_names(table(name)) - TEXT_GENERATORS
}
# The types with a class for text generation that are encoders unless their config.json says otherwise.
ENCODER_TYPES = {*table("MASKED_LM")} - {*table("SEQ_TO_SEQ_CAUSAL_LM")}


def task_of_type(config: Mapping[str, Any]) -> str:
    """What the models of a type do that transformers knows, but not for text generation; empty if unknown."""
    kind = config.get("model_type")
    if kind in TASK_OF_TYPE:
        return TASK_OF_TYPE[kind]
    return task_of_sections(config) or ("does not generate text" if kind in CONFIG_MAPPING_NAMES else "")


def task_of_sections(config: Mapping[str, Any]) -> str:
    """What a model reads in addition to text, by the sections of its config.json; empty if only text."""
    return next((task for section, task in SECTIONS.items() if config.get(section)), "")


def task_of_stored_class(config: Mapping[str, Any]) -> str:
    """What the class of the stored weights does if it generates no text; empty if it does, or is unknown."""
    names = list(stored_classes(config))
    if not names or TEXT_GENERATORS & set(names):
        return ""
    return next((TASK_OF_CLASS[name] for name in names if name in TASK_OF_CLASS), "") or (
        BASE if BASE_CLASSES & set(names) else ""
    )


def task_that_excludes_text(config: Mapping[str, Any]) -> str:
    """The task of a stored class that generates no text although its type has a class that does; else empty.

    The weights of a base class, such as MistralModel, may still be those of a text generator.
    """
    task = task_of_stored_class(config)
    is_encoder = config.get("model_type") in ENCODER_TYPES and not config.get("is_decoder")
    return task if task == CLASSES or (is_encoder and task) else ""


def stored_classes(config: Mapping[str, Any]) -> Iterator[str]:
    """The names of the classes in `architectures` of a config.json."""
    listed = config.get("architectures")
    yield from (name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
