"""The tokenizer of a GGUF file: it is converted once, later loads read it from the cache folder.

To convert a large vocabulary takes a second. What is kept is a folder of tokenizer files that gives the same
tokenizer, beside a file with their digest.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import transformers
from transformers import PreTrainedTokenizerFast

from inference.errors import named_error
from inference.model.load.gguf.file.shards import shard_paths
from inference.model.load.gguf.tokenizer.backend import build_backend
from inference.model.load.gguf.tokenizer.vocabulary import read_vocabulary
from inference.model.load.tokenizer import open_tokenizer
from inference.process.cache_folder import (
    UntrustedFile,
    cache_folder,
    is_own,
    read_with_digest,
    write_with_digest,
)

FOLDER = "gguf_tokenizers"
CONVERSION = "2"  # changes when the same file gives another tokenizer than before
MAX_FOLDERS = 8  # tokenizers; some 10 MB each
DIGEST = "files.digest"  # a file in the folder of a tokenizer
SPECIAL_TOKENS = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
PROBES = ("Hello, world! 1 23 456", " a  b\n\tc", "naïve 你好 🙂", "<s>[INST] hi [/INST]<|im_start|>user\n")

log = logging.getLogger(__name__)


def read_gguf_tokenizer(source: Path) -> Any:
    """The tokenizer of a GGUF file, or of the model whose first shard it is. Raises NotGguf, and OSError."""
    folder = saved_folder(source)
    if folder is not None and folder.is_dir():
        try:
            check_files(folder)
            os.utime(folder)  # it is used: others are deleted first
            return open_tokenizer(folder, trust_remote_code=False)
        except Exception as error:  # of transformers, for files that are not whole
            log.warning("the kept tokenizer of %s is converted again: %s", source.name, named_error(error))
    tokenizer = convert_tokenizer(source)
    if folder is not None:
        with contextlib.suppress(OSError):
            keep(tokenizer, folder)
    return tokenizer


def convert_tokenizer(source: Path) -> Any:
    vocabulary = read_vocabulary(np.memmap(shard_paths(source)[0], dtype=np.uint8, mode="r"))
    return PreTrainedTokenizerFast(
        tokenizer_object=build_backend(vocabulary),
        chat_template=vocabulary.templates,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        **{argument: vocabulary.token(name) for argument, name in SPECIAL_TOKENS.items()},
    )


def keep(tokenizer: Any, folder: Path) -> None:
    """Save the tokenizer, if what was saved gives the same one. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        tokenizer.save_pretrained(unfinished)
        if describe(open_tokenizer(unfinished, trust_remote_code=False)) == describe(tokenizer):
            write_with_digest(unfinished / DIGEST, digest_files(unfinished))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(unfinished, folder)
    except Exception as error:  # of transformers, for a tokenizer that it cannot save or read
        log.info("the tokenizer is not kept: %s", named_error(error))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    by_age = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for each in by_age[MAX_FOLDERS:]:
        shutil.rmtree(each, ignore_errors=True)


def check_files(folder: Path) -> None:
    """Raises OSError if another user may have written the files, or if they are not those that were kept."""
    if not is_own(folder.lstat()) or read_with_digest(folder / DIGEST) != digest_files(folder):
        raise UntrustedFile("its files were changed, or another user of this machine may have written them")


def digest_files(folder: Path) -> bytes:
    """SHA-256 of the files that a tokenizer is read from, with their names. Raises OSError."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name != DIGEST:
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def describe(tokenizer: Any) -> tuple[Any, ...]:
    """What two tokenizers that are the same have in common."""
    encoded = [tokenizer.encode(text) for text in PROBES]
    return (
        type(tokenizer),
        encoded,
        [tokenizer.decode(ids) for ids in encoded],
        [tokenizer.encode(text, add_special_tokens=False) for text in PROBES],
        tokenizer.get_vocab(),
        {number: str(token) for number, token in tokenizer.added_tokens_decoder.items()},
        sorted(tokenizer.all_special_ids),
        (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token),
        tokenizer.chat_template,
    )


def saved_folder(source: Path) -> Path | None:
    """Where the tokenizer of the file as it is now is kept, for these libraries; None if it cannot be."""
    try:
        status, folder = source.stat(), cache_folder() / FOLDER
    except (OSError, RuntimeError):
        return None
    file = source.resolve(), status.st_size, status.st_mtime_ns
    identity = "\0".join(map(str, (CONVERSION, *file, transformers.__version__, tokenizers.__version__)))
    return folder / hashlib.sha256(identity.encode()).hexdigest()[:32]
