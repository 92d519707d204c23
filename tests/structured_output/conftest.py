"""Small tokenizers of several kinds, and random answers under a constraint."""

import json
import random
from collections.abc import Callable, Iterator

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from inference.structured_output import GrammarCompiler, GrammarMatcher
from inference.types import Constraint

TEXT = [
    '{"name": "Anna", "age": 12, "list": [1, 2, 3], "ok": true, "x": null, "y": false}',
    "The answer is: yes, no, or maybe <so>.\n\n    \tÜnïcödé 中文 🙂",
] * 20
SPECIALS = ["<unk>", "<s>", "</s>", "<end>"]
UNUSED = 5  # columns of the logits after the last token


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIALS, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIALS))
    described = json.loads(tokenizer.to_str())
    vocab = described["model"]["vocab"]
    vocab |= {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
    return Tokenizer.from_str(json.dumps(described))


def sentencepiece_unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=SPECIALS, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def speech() -> Tokenizer:
    """Letters whose repetition counts once (CTC): the text of a token depends on the one before."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.decoder = decoders.CTC()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=10, special_tokens=SPECIALS))
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": byte_level,
    "sentencepiece_bpe": sentencepiece_bpe,
    "sentencepiece_unigram": sentencepiece_unigram,
    "speech": speech,
}


def make_tokenizer(kind: str) -> PreTrainedTokenizerBase:
    return PreTrainedTokenizerFast(tokenizer_object=KINDS[kind](), eos_token="</s>", unk_token="<unk>")


class RandomWriter:
    """Writes random answers: at each step one of the allowed tokens, all equally likely."""

    def __init__(self, kind: str) -> None:
        self.tokenizer = make_tokenizer(kind)
        self.ends = frozenset(self.tokenizer.convert_tokens_to_ids(["</s>", "<end>"]))
        self.vocab = len(self.tokenizer) + UNUSED
        self.compiler = GrammarCompiler(self.tokenizer, self.vocab, self.ends)

    def texts(self, constraint: Constraint, count: int = 40, limit: int = 300) -> Iterator[str]:
        """The texts of those among `count` answers that end within `limit` tokens."""
        matcher = self.compiler.compile(constraint)
        for seed in range(count):
            text = self.text(matcher.copy(), seed, limit)
            if text is not None:
                yield text

    def text(self, matcher: GrammarMatcher, seed: int, limit: int) -> str | None:
        choose = random.Random(seed).choice
        ids: list[int] = []
        while len(ids) < limit:
            id = choose(allowed_ids(matcher))
            if id in self.ends:
                return self.tokenizer.decode(ids, clean_up_tokenization_spaces=False)
            matcher.advance(id)
            ids.append(id)
        return None


def allowed_ids(matcher: GrammarMatcher) -> list[int]:
    words = matcher.token_bitmask()
    bits = (words[:, None] >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten().nonzero().flatten().tolist()


@pytest.fixture(scope="module")
def writer() -> RandomWriter:
    return RandomWriter("byte_level")
