"""Silences transformers during trial loads: the real load reports the same again."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Within the context, transformers logs nothing and shows no progress bars."""
    level, has_progress_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_progress_bars:
            logging.enable_progress_bar()
