"""Recognizes that a disk is full, or a user's share of it, however a library says so."""

import errno
import os

FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
FULL_TEXTS = tuple(os.strerror(number) for number in FULL_ERRNOS)


def is_disk_full(error: BaseException) -> bool:
    return (isinstance(error, OSError) and error.errno in FULL_ERRNOS) or names_full_disk(str(error))


def names_full_disk(text: str) -> bool:
    """Whether the message of an error, or the last line of a program, says so."""
    return any(full in text for full in FULL_TEXTS)
