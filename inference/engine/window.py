"""The penalty of each token in a window over the latest text, along a curve (Neodim's repetition penalty).

Knows ids and a Window; nothing of logits.
"""

from collections.abc import Sequence as Ids

import torch

from inference.sampling import Window


def weights(window: Window, answer: Ids[int]) -> dict[int, float]:
    """What to penalise each token by; of one that comes several times, its last place counts.

    Nothing is computed for places of the curve that lie before the text.
    """
    span = _span(window, len(answer))
    tokens = _last(window, answer, span)
    if window.slope == 0 or span == 1:
        return dict.fromkeys(tokens, window.penalty)
    return dict(zip(tokens, _curve(window, span, len(tokens)), strict=True))


def _span(window: Window, generated: int) -> int:
    """N: how many tokens the curve spans. Cut to the text of the beginning, it grows only in expanding."""
    length = min(window.length, len(window.tokens)) if window.within else window.length
    return length + generated if window.scope == "expand" else length


def _last(window: Window, answer: Ids[int], count: int) -> list[int]:
    """The last `count` tokens of what is penalised, or all there are."""
    generated = [] if window.scope == "ignore" else list(answer[max(0, len(answer) - count) :])
    before = count - len(generated)
    return [*window.tokens[max(0, len(window.tokens) - before) :], *generated] if before else generated


def _curve(window: Window, span: int, last: int) -> list[float]:
    """The curve's value at the last places of its span: 1 at the first of all, `penalty` at the end.

    Neodim's README, "repetition_penalty_slope": y = s x / (1 + |x| (s - 1)) for x from -1 to 1.
    """
    x = torch.arange(span - last, span, dtype=torch.float32) * 2 / (span - 1) - 1
    y = window.slope * x / (1 + x.abs() * (window.slope - 1))
    return (1 + (window.penalty - 1) * (y + 1) / 2).tolist()
