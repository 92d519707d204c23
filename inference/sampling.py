"""How the next token is chosen: one value for each idea, every default neutral.

Token ids and numbers only; the dialects fill it in, the engine obeys it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scope = Literal["ignore", "expand", "slide"]


@dataclass(frozen=True, slots=True)
class Window:
    """A repetition penalty over the latest tokens of a text, stronger towards its end (Neodim's).

    tokens   what is penalised before anything is generated
    penalty  at the window's end, as Sampling.repetition
    length   N: tokens the window spans; may exceed what there is, then the curve begins before the text
    slope    0: `penalty` for all; else the curve from 1 to `penalty`: straight at 1, an S above
    scope    ignore: generated tokens are not penalised; expand: the window grows by them; slide: it keeps its
             length and moves on
    within   N never exceeds the tokens there are
    """

    tokens: tuple[int, ...]
    penalty: float
    length: int
    slope: float = 0.0
    scope: Scope = "slide"
    within: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """Favour a share `gamma` of the vocabulary, drawn by the token before, by `delta`.

    Kirchenbauer et al., "A Watermark for Large Language Models" (2023), algorithm 2.
    """

    gamma: float = 0.5
    delta: float = 2.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """What shapes the distribution of the next token.

    greedy           take the most probable token; the warpers are not applied
    tfs              tail-free sampling; 0 is off, for even 1 removes the least probable token
    top_a            remove what is less probable than top_a times the square of the most probable
    repetition       over prompt and answer; `window` is the same idea within limits
    frequency_share  subtract share * count / tokens, over prompt and answer (TGI's frequency penalty)
    no_repeat_ngram  no run of so many tokens comes twice, prompt included
    banned           runs of tokens that are never completed; one token long: never chosen
    banned_first     tokens that do not begin the answer
    allowed          only these tokens; None: all
    allowed_ends     with `allowed`: the answer may end, too; False: only with an end that is among them
    contrast         contrastive search: the weight of unlikeness among the top_k tokens; 0 is off
    order            the warpers' names in the order to apply them, those left out behind in the usual one;
                     with "repetition" among them, repetition and window come at its place, else first
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    tfs: float = 0.0
    top_a: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    frequency_share: float = 0.0
    no_repeat_ngram: int = 0
    window: Window | None = None
    bias: Mapping[int, float] = field(default_factory=dict)
    banned: tuple[tuple[int, ...], ...] = ()
    banned_first: frozenset[int] = frozenset()
    allowed: frozenset[int] | None = None
    allowed_ends: bool = True
    watermark: Watermark | None = None
    contrast: float = 0.0
    order: tuple[str, ...] = ()
    seed: int | None = None
