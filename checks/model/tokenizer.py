"""Checks that there is a tokenizer, and that it makes no huge texts of short ones, before it is opened."""

import re
from pathlib import Path

from checks.machine import Machine
from checks.memory.plan import Plan
from hub.repository import Repository
from inference import untrusted_json
from inference.errors import BadRequest
from inference.finding import Finding
from inference.model.load.tokenizer_limits import check_tokenizer_limits

NEED = "a tokenizer.json with bounds"
FIX = "correct its tokenizer.json, or choose another model"
# Files of vocabularies that transformers' tokenizers read, and code of a tokenizer that the model brings.
VOCABULARY = re.compile(
    r"vocab|merges|tokenizer\.|spiece|\.spm$|\.model$|\.tiktoken$|bpe\.codes|dict\.txt|\.py$"
)
MISSING_FIX = "copy the tokenizer.json of a model of its family into its folder, or choose another model"
TEKKEN = "tekken.json"  # of mistral-common, which transformers does not read by itself
CLASS = "tokenizer_class"
# Their tokens are bytes or characters.
WITHOUT_FILES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")


def check(plan: Plan, machine: Machine) -> Finding | None:
    """None if nothing is wrong, or the files are not here yet: they are checked again when opened."""
    folder = plan.repository.metadata_folder
    if folder is None:
        return None
    if not has_vocabulary(plan.repository, folder):
        have = f"{TEKKEN} alone" if TEKKEN in plan.repository.names else "no file with one"
        return Finding("tokenizer", "a vocabulary", have, False, MISSING_FIX)
    try:
        check_tokenizer_limits(folder)
    except BadRequest as error:
        return Finding("tokenizer", NEED, error.message, False, FIX)
    return None


def has_vocabulary(repository: Repository, folder: Path) -> bool:
    """Whether a file of the model may have its tokenizer's vocabulary. folder: of the small files."""
    if repository.gguf_file or any(VOCABULARY.search(name) for name in repository.names):
        return True
    try:
        settings = untrusted_json.read_json_object(folder / "tokenizer_config.json")
    except (OSError, ValueError):  # another check names a file that cannot be read
        settings = {}
    return settings.get(CLASS, repository.config.get(CLASS)) in WITHOUT_FILES
