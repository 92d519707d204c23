"""Selects the files that a model is loaded from, by their names and sizes.

Weights are safetensors if there are any, else one GGUF file or its parts, else pickles if they are allowed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from inference.finding import Finding, Refused, format_count, format_size, join_names
from inference.model.load.gguf.file.shards import GGUF, first_shard, shard_names

SHARD_PATTERN = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
SMALL_SUFFIXES = (".json", ".model", ".jinja", ".txt", ".tiktoken")
# Transformers reads these whole before it looks at them. The largest tokenizers have some 40 MB.
READ_WHOLE = re.compile(
    r"((generation_)?config|tokenizer\w*|special_tokens_map|added_tokens|vocab|merges|chat_template)\.\w+"
)
MAX_SMALL_BYTES = 256_000_000
SENTENCE_MODULE = re.compile(r"\d+_\w+/config\.json")  # how sentence-transformers pools hidden states
OTHER_FRAMEWORKS = ("pytorch_model", "tf_model", "flax_model", "consolidated")
SINGLE_FILE = "model.safetensors"
PICKLE_PATTERN = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin(\.index\.json)?")
COMPANION_PREFIXES = ("mmproj", "imatrix")  # GGUF files that accompany a model
WEIGHT_SUFFIXES = (".safetensors", GGUF, ".bin")


@dataclass(frozen=True, slots=True)
class AllowedFiles:
    """Which files of a model may be loaded.

    allow_pickle       pickles, too
    gguf_file          name or part of the name of the GGUF file to load; empty: GGUF only without safetensors
    trust_remote_code  the model's Python files, too
    """

    allow_pickle: bool = False
    gguf_file: str = ""
    trust_remote_code: bool = False


SAFE_FILES = AllowedFiles()


def select_weight_files(
    sizes: Mapping[str, int], shard_files: set[str] | None, allowed: AllowedFiles
) -> set[str]:
    """The files to load weights from.

    sizes: bytes by name. shard_files: the files that a safetensors index names; None without an index. Raises
    Refused if several GGUF files match.
    """
    if allowed.gguf_file:
        return set(select_gguf(sizes, allowed.gguf_file))
    if shard_files is not None:
        return shard_files
    if SINGLE_FILE in sizes:
        return {SINGLE_FILE}
    if gguf_models(sizes):
        return set(select_gguf(sizes, ""))
    return {name for name in sizes if allowed.allow_pickle and PICKLE_PATTERN.fullmatch(name)}


def select_gguf(sizes: Mapping[str, int], gguf_file: str) -> tuple[str, ...]:
    """The parts of the GGUF file with this name, or of the only one that contains it. Raises Refused."""
    candidates = gguf_models(sizes)
    if first_shard(gguf_file) in candidates:
        return list_parts(first_shard(gguf_file), sizes)
    matches = [name for name in candidates if gguf_file.lower() in name.lower()]
    if len(matches) == 1:
        return list_parts(matches[0], sizes)
    need = f"GGUF_FILE = {gguf_file!r}" if gguf_file else "a GGUF file"
    bytes_of = {name: sum(sizes.get(file, 0) for file in shard_names(name)) for name in matches or candidates}
    have = ", ".join(f"{name} ({format_size(num_bytes)})" for name, num_bytes in bytes_of.items()) or "none"
    raise Refused(Finding("weights", need, have, False, suggest_gguf(matches or candidates)))


def gguf_models(names: Iterable[str]) -> list[str]:
    """The names of the GGUF models; of a model in parts, the first part."""
    gguf_files = (
        name
        for name in names
        if name.endswith(GGUF) and not PurePath(name).name.startswith(COMPANION_PREFIXES)
    )
    return sorted({first_shard(name) for name in gguf_files})


def list_parts(name: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """All parts of the model. Raises Refused if one is missing."""
    files = shard_names(name)
    missing = [file for file in files if file not in sizes]
    if not missing:
        return files
    verb = "are" if len(missing) > 1 else "is"
    others = [other for other in gguf_models(sizes) if other != name]
    fix = f"{join_names(missing)} {verb} missing: fetch or copy what is missing, or {suggest_gguf(others)}"
    raise Refused(
        Finding("weights", format_count(len(files), "part"), f"{len(files) - len(missing)}", False, fix)
    )


def suggest_gguf(names: list[str]) -> str:
    if not names:
        return "choose a model with complete files"
    return f'GGUF_FILE = "{names[0]}", or another one'


def select_files(
    sizes: Mapping[str, int],
    shard_files: set[str] | None,
    allowed: AllowedFiles = SAFE_FILES,
) -> list[str]:
    """The files that loading reads: weights, configuration and tokenizer files. Raises Refused."""
    small_files = {
        name for name in sizes if is_small_file(name) or (allowed.trust_remote_code and name.endswith(".py"))
    }
    refuse_large_files({name: sizes[name] for name in small_files if READ_WHOLE.fullmatch(name)})
    return sorted(select_weight_files(sizes, shard_files, allowed) | small_files)


def refuse_large_files(sizes: Mapping[str, int]) -> None:
    """Raise Refused for a file that would be read whole into memory, and is too large for that."""
    for name, num_bytes in sizes.items():
        if num_bytes > MAX_SMALL_BYTES:
            need, have = f"{name} of at most {format_size(MAX_SMALL_BYTES)}", format_size(num_bytes)
            raise Refused(Finding("weights", need, have, False, f"correct {name}, or choose another model"))


def is_small_file(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    has_small_name = file.endswith(SMALL_SUFFIXES) and not file.startswith(OTHER_FRAMEWORKS)
    is_module = SENTENCE_MODULE.fullmatch(name) is not None
    return is_module or (has_small_name and folder in ("", "additional_chat_templates"))


def find_shard_names(names: Iterable[str]) -> set[str]:
    """The shards according to their names, if the index is too large to be read before the download."""
    return {name for name in names if SHARD_PATTERN.fullmatch(name)}
