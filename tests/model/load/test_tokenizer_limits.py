"""A tokenizer.json that makes a huge text of a short one is refused before it is opened."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from inference.errors import BadRequest
from inference.model.load.tokenizer import open_tokenizer
from inference.model.load.tokenizer_limits import check_tokenizer_limits
from tests.tiny_models import tiny


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*normalizers: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(normalizers)}


def charsmap(*texts: str) -> dict[str, Any]:
    table = bytes(4) + b"".join(text.encode() + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def template(num_pieces: int, num_ids: int) -> dict[str, Any]:
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * num_pieces,
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1] * num_ids, "tokens": ["<s>"] * num_ids}},
    }


LONG_REPLACE = replace({"String": "a"}, "a" * 100)
HOSTILE: dict[str, dict[str, Any]] = {
    "five replacements in a row": {"normalizer": sequence(*[LONG_REPLACE] * 5)},
    "sequences of sequences": {"normalizer": sequence(*[sequence(sequence(LONG_REPLACE))] * 5)},
    "a long replacement": {"normalizer": replace({"String": "a"}, "b" * 10_000_000)},
    "empty matches": {"normalizer": sequence(*[replace({"Regex": "x*"}, "ab")] * 5)},
    "an empty string": {"normalizer": sequence(*[replace({"String": ""}, "a")] * 7)},
    "a class of Unicode": {"normalizer": sequence(*[replace({"Regex": r"\p{L}"}, "abc")] * 5)},
    "a prefix of 10 MB": {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000_000}},
    "a table of long texts": {"normalizer": charsmap("a", "b" * 1000)},
    "replacements in the decoder": {
        "decoder": {"type": "Sequence", "decoders": [LONG_REPLACE, LONG_REPLACE]}
    },
    "a template of many tokens": {"post_processor": template(1000, 1000)},
    "padding": {"padding": {"strategy": {"Fixed": 10**10}}},
    "padding to a multiple": {"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 10**10}},
    "long words": {"model": {"type": "WordPiece", "max_input_chars_per_word": 10**9}},
}
USUAL: dict[str, dict[str, Any]] = {
    "Llama": {
        "normalizer": sequence({"type": "Prepend", "prepend": "▁"}, replace({"String": " "}, "▁")),
        "decoder": {
            "type": "Sequence",
            "decoders": [replace({"String": "▁"}, " "), {"type": "Strip", "content": " "}],
        },
        "post_processor": template(1, 1),
    },
    "T5": {
        "normalizer": sequence(
            charsmap("a", "fi", "صلى الله عليه وسلم"),
            replace({"String": "``"}, '"'),
            replace({"Regex": " {2,}"}, "▁"),
        )
    },
    "CLIP": {"normalizer": sequence({"type": "NFC"}, replace({"Regex": r"\s+"}, " "))},
    "BERT": {"model": {"type": "WordPiece", "max_input_chars_per_word": 100}},
    "thirty replacements": {"normalizer": sequence(*[replace({"Regex": r"[\p{L}]"}, "a")] * 30)},
    "malformed": {"normalizer": [1, "a"], "decoder": {"type": ["Replace"]}, "padding": 3},
}


def write(folder: Path, sections: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(sections))
    return folder


@pytest.mark.parametrize("sections", HOSTILE.values(), ids=HOSTILE)
def test_a_tokenizer_without_sensible_bounds_is_refused(sections: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"tokenizer\.json cannot be used: .*, at most \d+"):
        check_tokenizer_limits(write(tmp_path, sections))


@pytest.mark.parametrize("sections", USUAL.values(), ids=USUAL)
def test_usual_steps_pass(sections: dict[str, Any], tmp_path: Path) -> None:
    check_tokenizer_limits(write(tmp_path, sections))


def test_a_folder_without_the_file_passes(tmp_path: Path) -> None:
    check_tokenizer_limits(tmp_path)


def test_it_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path)
    assert open_tokenizer(folder, trust_remote_code=False).encode("a")
    tiny.edit(folder / "tokenizer.json", normalizer=HOSTILE["five replacements in a row"]["normalizer"])
    with pytest.raises(BadRequest, match="normalizer can lengthen a text"):
        open_tokenizer(folder, trust_remote_code=False)
