"""A tokenizer whose library panics, as one in a faulty tokenizer.json does."""

from tokenizers import Regex, Tokenizer, models, pre_tokenizers


def make_panicking_tokenizer() -> Tokenizer:
    """Panics when it encodes many a's: its pattern backtracks too often."""
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    return tokenizer
