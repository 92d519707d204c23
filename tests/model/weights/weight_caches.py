"""What tests of the weight cache share: small models are kept too, and are kept when their load ends."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from inference.model.weights import weight_cache
from settings.groups import EngineSettings
from tests.tiny_models import gguf_files, tiny

ENGINE = EngineSettings(
    context=64, max_sequences=2, kv_memory_bytes=1 << 24, max_batch_tokens=64, max_queued_tokens=100
)


def keep_small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_cache, "MIN_BYTES", 0)


def wait_for_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load ends when its weights are kept."""
    keep = weight_cache.WeightCache.keep

    def keep_and_wait(*args: Any) -> None:
        if writer := keep(*args):
            writer.join()

    monkeypatch.setattr(weight_cache.WeightCache, "keep", keep_and_wait)


def tied_llama(folder: Path) -> Path:
    return tiny.llama(folder / "tied", tie_word_embeddings=True)


def gguf_llama(folder: Path) -> Path:
    return gguf_files.write(tiny.llama(folder / "llama"), folder / "llama" / "model.gguf")


def gpt2_with_conv1d(folder: Path) -> Path:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=320, n_positions=128)
    return tiny.save_model(folder / "gpt2", transformers.GPT2LMHeadModel, config)
