"""Neodim's repetition penalty: over which tokens it stands, and what the report says of that.

Which logit becomes what is the engine's part, see Window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from api.neodim.bodies import Body, text
from api.neodim.prompt import Input
from api.neodim.texts import Ids, Texts
from inference.sampling import Scope, Window

# The README offers "allow", which no release knew; it is taken for the kind that leaves nothing out.
SCOPES: dict[str, Scope] = {"ignore": "ignore", "expand": "expand", "slide": "slide", "allow": "expand"}


def window(body: Body, given: Input, texts: Texts) -> Window | None:
    """None where there is no penalty; a penalty of 1 does nothing, but is reported."""
    if not body.repetition_penalty:
        return None
    instead = texts.plain(text(body.repetition_penalty_prompt), "repetition_penalty_prompt")
    tokens = texts.encode(instead, "repetition_penalty_prompt") if instead else given.prompt_ids
    if body.repetition_penalty_include_preamble:
        tokens = given.preamble_ids + tokens
    return Window(
        tokens=tokens,
        penalty=body.repetition_penalty,
        length=body.repetition_penalty_range or len(tokens),
        slope=body.repetition_penalty_slope or 0.0,
        scope=SCOPES[body.repetition_penalty_include_generated or "slide"],
        within=bool(body.repetition_penalty_truncate_to_input),
    )


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the penalty reached at one step: its range N, and the tokens within it, at most N."""

    span: int
    ids: Ids


def extent(window: Window, generated: Sequence[int]) -> Extent:
    """At the step after `generated`. Cut to the input, the range is that of the first step, but expands."""
    span = min(window.length, len(window.tokens)) if window.within else window.length
    if window.scope == "expand":
        span += len(generated)
    ids = window.tokens if window.scope == "ignore" else (*window.tokens, *generated)
    return Extent(span, ids[-span:] if span else ())
