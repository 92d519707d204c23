"""Encrypts the files of a checkpoint with age for those whom a client names (https://age-encryption.org).

Knows files and recipients; no runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyrage

from inference.errors import BadRequest, short
from tuning.trainer.durable_files import sync

SUFFIX = ".age"
MAX_RECIPIENTS = 10
FIELD = "age_encryption_recipients"
SSH = "ssh-"  # how a public key of SSH begins

Recipient = Any  # a public key as pyrage, which has no types, reads it


def parse_recipients(keys: Sequence[str]) -> list[Recipient]:
    """The public keys that may decrypt. Raises BadRequest."""
    if len(keys) > MAX_RECIPIENTS:
        raise BadRequest(FIELD, f"must have at most {MAX_RECIPIENTS} items", len(keys))
    return [parse_recipient(key, f"{FIELD}[{i}]") for i, key in enumerate(keys)]


def parse_recipient(key: str, field: str) -> Recipient:
    kind = pyrage.ssh if key.startswith(SSH) else pyrage.x25519
    try:
        return kind.Recipient.from_str(key)
    except pyrage.RecipientError:
        raise BadRequest(field, "must be a public key, age1… or of SSH", short(key)) from None


def encrypt_files(folder: Path, recipients: Sequence[Recipient]) -> None:
    """Replace each file in the folder by NAME.age, flushed to the disk."""
    for file in sorted(folder.iterdir()):
        encrypted = file.with_name(file.name + SUFFIX)
        pyrage.encrypt_file(str(file), str(encrypted), recipients)
        sync(encrypted)
        file.unlink()
    sync(folder)
