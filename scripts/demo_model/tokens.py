"""Trains the tokenizer: byte-level BPE with Llama 3's special tokens and a chat template.

A capitalised word's token has no space in it, so that a name has the same tokens in a sentence and in JSON.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
)
ENDS = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
WORDS = Regex(
    r"'(?i:[sdmt]|ll|ve|re)| ?[\p{Ll}\p{Lo}\p{Lm}\p{M}]+|\p{Lu}[\p{Ll}\p{M}]+|\p{Lu}+| ?\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+|\s"
)


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """A tokenizer with a vocabulary of `size` tokens; the special tokens have the last ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(WORDS, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    begin = SPECIAL[0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A",
        pair=f"{begin} $A {begin}:1 $B:1",
        special_tokens=[(begin, tokenizer.token_to_id(begin))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=begin,
        eos_token="<|eot_id|>",
        pad_token="<|end_of_text|>",
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
        chat_template=Path(__file__).with_name("chat_template.jinja").read_text(),
    )
