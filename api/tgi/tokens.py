"""Tokens as TGI tells them: those of the prompt, the generated ones, and those that could have been.

No logprob of a generated token is ever null: clients require a number.
"""

import math

from api.logprobs import LOWEST, finite
from api.tgi import shapes
from inference.types import Alternative, PromptToken, Token, Tokenized


def prefill(token: PromptToken) -> shapes.PrefillToken:
    logprob = None if token.logprob is None else finite(token.logprob)
    return shapes.PrefillToken(token.id, token.text, logprob)


def generated(token: Token, rest: str = "") -> shapes.Token:
    """A special token is told by its name, another by what it adds to the text, and `rest`, held back until
    the end."""
    text = token.spelling if token.special else token.text + rest
    logprob = LOWEST if token.logprob is None else finite(token.logprob)
    return shapes.Token(token.id, text, logprob, token.special)


def top(token: Token, most: int) -> list[shapes.Token]:
    """The `most` most probable tokens, and all that are as probable as the last of them."""
    # What the warpers have removed has no logprob that JSON can say.
    possible = sorted((each for each in token.top if each.logprob > -math.inf), key=_improbability)
    least = possible[:most][-1].logprob if possible and most else math.inf
    return [_alternative(each) for each in possible if each.logprob >= least]


def simple(told: Tokenized) -> list[shapes.SimpleToken]:
    """Each with the characters it stands for: the whole of one that it is a part of, none if it was added."""
    return [
        shapes.SimpleToken(piece.id, told.text[piece.start : piece.stop], piece.start, piece.stop)
        for piece in told.pieces
    ]


def _alternative(token: Alternative) -> shapes.Token:
    return shapes.Token(token.id, token.text, token.logprob, token.special)


def _improbability(token: Alternative) -> float:
    return -token.logprob
