"""The sampling parameters of a request. Every default is neutral.

Token ids and numbers only. The dialects fill the values in, the engine applies them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PenaltyScope = Literal["ignore", "expand", "slide"]

REPETITION_PENALTY = "repetition"
# The warpers that Sampling.warper_order may name, in the usual order.
WARPER_NAMES = ("temperature", "top_k", "top_p", "min_p", "typical_p", "tfs", "top_a", REPETITION_PENALTY)


@dataclass(frozen=True, slots=True)
class PenaltyWindow:
    """A repetition penalty over the latest tokens of a text, stronger towards its end (Neodim's).

    token_ids     the tokens to penalise before anything is generated
    penalty       the penalty at the window's end, as Sampling.repetition_penalty
    length        N, the tokens in the window; may exceed the text: then the curve begins before the text
    slope         0: `penalty` for all tokens; else the curve goes from 1 to `penalty`: linear at slope 1,
                  S-shaped above
    scope         ignore: generated tokens are not penalised; expand: the window grows by them; slide: the
                  window keeps its length and moves on
    clamp_length  limit N to the number of tokens in the text
    """

    token_ids: tuple[int, ...]
    penalty: float
    length: int
    slope: float = 0.0
    scope: PenaltyScope = "slide"
    clamp_length: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """Add `delta` to the logits of a share `gamma` of the vocabulary, chosen by the previous token.

    Kirchenbauer et al., "A Watermark for Large Language Models" (2023), algorithm 2.
    """

    gamma: float = 0.5
    delta: float = 2.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is sampled.

    greedy                 take the most probable token; no warper is applied
    tfs                    tail-free sampling; only 0 is off: even 1 removes the least probable token
    top_a                  remove tokens less probable than top_a times the square of the highest probability
    repetition_penalty     penalises tokens of prompt and answer; penalty_window limits it to a window
    tgi_frequency_penalty  subtract this times count / tokens, over prompt and answer (TGI's
                           frequency_penalty)
    no_repeat_ngram_size   no n-gram of this size occurs twice, prompt included
    logit_bias             added to the logits, by token id
    bad_words_ids          token sequences that are never completed; a sequence of one token is never sampled
    banned_first           tokens that must not start the answer
    allowed_token_ids      only these tokens; None: all
    eos_allowed            with allowed_token_ids: end tokens are allowed too; False: only if listed there
    penalty_alpha          contrastive search: the weight of the degeneration penalty among the top_k tokens;
                           0 is off
    warper_order           names of warpers in the order to apply them; unnamed warpers follow in the usual
                           order. "repetition" sets the place of repetition_penalty and penalty_window, which
                           otherwise come first
    seed                   answer i of a request uses seed + i; None: a random seed
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    tfs: float = 0.0
    top_a: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    tgi_frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    penalty_window: PenaltyWindow | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    banned_first: frozenset[int] = frozenset()
    allowed_token_ids: frozenset[int] | None = None
    eos_allowed: bool = True
    watermark: Watermark | None = None
    penalty_alpha: float = 0.0
    warper_order: tuple[str, ...] = ()
    seed: int | None = None
