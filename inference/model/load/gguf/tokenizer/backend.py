"""Builds the tokenizer of a GGUF file's vocabulary: it gives the tokens that llama.cpp's gives.

Knows the kinds of vocabularies (llama.cpp, src/llama-vocab.cpp) and the library tokenizers; reads no file.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from inference.finding import join_names
from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.tokenizer.splits import ADD_BOS, IGNORE_MERGES, SPLITS
from inference.model.load.gguf.tokenizer.vocabulary import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
)

SPACE = "\u2581"  # how sentencepiece writes a space
BLANKS = 100  # of a T5, which a file calls [PAD…]: the last of them is <extra_id_0>
UNSTRIPPED = ("<s>", "<|endoftext|>")  # special tokens of Phi 3 that leave the spaces behind them
REMEDY = "put the model's tokenizer.json into the file's folder"


def build_backend(vocabulary: GgufVocabulary) -> Tokenizer:
    """Raises NotGguf for a vocabulary of another kind, and for one that splits texts in an unknown way."""
    model = vocabulary.get("model")
    if model not in BUILDERS:
        known = join_names(sorted(BUILDERS))
        raise NotGguf(f"a GGUF file with a tokenizer of the kind {model!r}, not {known}: {REMEDY}")
    tokenizer = BUILDERS[model](vocabulary)
    add_special_tokens(tokenizer, vocabulary)
    add_ends(tokenizer, vocabulary)
    return tokenizer


def byte_level(vocabulary: GgufVocabulary) -> Tokenizer:
    """Pairs of bytes are merged, within the words of a text. Merges whose result is no token are left out."""
    name = vocabulary.get("pre", "default")
    if name not in SPLITS:
        raise NotGguf(f"a GGUF file whose texts are split by {name!r}, which is unknown: {REMEDY}")
    tokenizer = Tokenizer(
        models.BPE(
            vocab=ids_of(vocabulary), merges=stated_merges(vocabulary), ignore_merges=name in IGNORE_MERGES
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS[name]),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece(vocabulary: GgufVocabulary) -> Tokenizer:
    """The pair with the best score is merged, across words; what is no token becomes bytes."""
    merges = stated_merges(vocabulary) if vocabulary.get("merges") else merges_by_score(vocabulary)
    tokenizer = Tokenizer(
        models.BPE(
            vocab=ids_of(vocabulary),
            merges=merges,
            unk_token=vocabulary.token("unknown"),
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    has_prefix = vocabulary.get("add_space_prefix", vocabulary.get("model") == "llama")
    prefix = [normalizers.Prepend(SPACE)] if has_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", SPACE)])
    if vocabulary.get("model") == "gemma4":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("\n+"), "isolated")
    without_prefix = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *without_prefix]
    )
    return tokenizer


def unigram(vocabulary: GgufVocabulary) -> Tokenizer:
    """The most likely of all ways to divide a text into tokens."""
    tokens = name_blanks(vocabulary.tokens)
    tokenizer = Tokenizer(
        models.Unigram(
            vocab=list(zip(tokens, vocabulary.scores, strict=True)),
            unk_id=vocabulary.token_id("unknown"),
            byte_fallback=False,
        )
    )
    charsmap = vocabulary.get("precompiled_charsmap")
    steps: list[Any] = (
        [normalizers.Precompiled(bytes(value & 0xFF for value in charsmap))] if charsmap else []
    )
    if vocabulary.get("remove_extra_whitespaces"):
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    scheme = "always" if vocabulary.get("add_space_prefix", True) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, scheme)
    tokenizer.decoder = decoders.Metaspace(SPACE, scheme)
    return tokenizer


BUILDERS: Mapping[str, Callable[[GgufVocabulary], Tokenizer]] = {
    "gpt2": byte_level,
    "llama": sentencepiece,
    "gemma4": sentencepiece,
    "t5": unigram,
}


def ids_of(vocabulary: GgufVocabulary) -> dict[str, int]:
    return {token: number for number, token in enumerate(vocabulary.tokens)}


def stated_merges(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """The file's merges. The space between both may be followed by others: a token can begin with one."""
    known = set(vocabulary.tokens)
    pairs = []
    for merge in vocabulary.get("merges") or ():
        middle = merge.find(" ", 1)
        first, second = merge[:middle], merge[middle + 1 :]
        if middle > 0 and {first, second, first + second} <= known:
            pairs.append((first, second))
    return pairs


def merges_by_score(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """All pairs of tokens that together are a token: the best score first, as sentencepiece joins them."""
    normal = {
        token: (-score, number)
        for number, (token, score, kind) in enumerate(
            zip(vocabulary.tokens, vocabulary.scores, vocabulary.kinds, strict=True)
        )
        if kind in (NORMAL, USER_DEFINED)
    }
    pairs = [
        (normal[token], normal[token[:middle]], token[:middle], token[middle:])
        for token in normal
        for middle in range(1, len(token))
        if token[:middle] in normal and token[middle:] in normal
    ]
    return [(first, second) for _, _, first, second in sorted(pairs)]


def name_blanks(tokens: list[str]) -> list[str]:
    """A T5's placeholders with the names that its users write."""
    blanks = [number for number, token in enumerate(tokens) if token == f"[PAD{number}]"][:BLANKS]
    names = {number: f"<extra_id_{BLANKS - 1 - place}>" for place, number in enumerate(blanks)}
    return [names.get(number, token) for number, token in enumerate(tokens)]


def add_special_tokens(tokenizer: Tokenizer, vocabulary: GgufVocabulary) -> None:
    """Tokens that are found in a text before it is split. Most of Phi 3's take the spaces behind them too."""
    strips = vocabulary.architecture == "phi3" and vocabulary.get("model") == "llama"
    kinds = list(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
    for special, of_kind in ((True, (CONTROL, UNKNOWN)), (False, (USER_DEFINED,))):
        tokens = [
            AddedToken(
                text,
                special=special,
                normalized=False,
                rstrip=strips and kind == CONTROL and text not in UNSTRIPPED,
            )
            for text, kind in kinds
            if kind in of_kind
        ]
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(tokens)


def add_ends(tokenizer: Tokenizer, vocabulary: GgufVocabulary) -> None:
    """Set the tokens that every text begins and ends with."""
    model, name = vocabulary.get("model"), vocabulary.get("pre", "default")
    adds = {
        "bos": vocabulary.get("add_bos_token", model == "llama" or (model == "gpt2" and name in ADD_BOS)),
        "eos": vocabulary.get("add_eos_token", model == "t5"),
    }
    # The reference of Gemma 4 begins a text with none: its chat template writes it.
    adds["bos"] &= model != "gemma4"
    ids = {end: vocabulary.token_id(end) for end, is_added in adds.items() if is_added}
    special = [
        {"id": end, "ids": [number], "tokens": [vocabulary.tokens[number]]}
        for end, number in ids.items()
        if number is not None
    ]
    names = {each["id"] for each in special}
    if names:
        begin, end = [["bos"] if "bos" in names else [], ["eos"] if "eos" in names else []]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*begin, "$A", *end], pair=[*begin, "$A", *end, "$B:1", *end], special_tokens=special
        )
