"""What the model gets to read: the preamble whole, and of the prompt what there is room for.

Knows texts, tokens and the rules by which a prompt is cut. The tokenizer's own tokens around a text count
with the preamble, which is never cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.neodim.errors import Unfit
from api.neodim.texts import Ids, Texts

BROKEN = "\ufffd"
CHARACTER = 4  # tokens that one character may be made of


@dataclass(frozen=True, slots=True)
class Input:
    """What is read, and how much more there was.

    preamble, prompt   the texts in use; the prompt is the end of what was sent
    fixed              tokens of the preamble and of the tokenizer's own
    original           tokens of the prompt that was sent
    ids                all the model reads
    """

    preamble: str
    prompt: str
    preamble_ids: Ids
    prompt_ids: Ids
    fixed: int
    original: int
    ids: Ids


def read(texts: Texts, preamble: str, prompt: str, budget: int, until: Sequence[str]) -> Input:
    """The input in at most `budget` tokens; `until` are the strings behind one of which a prompt may begin.

    Raises Unfit where nothing would be left to read.
    """
    preamble, prompt = texts.plain(preamble, "preamble"), texts.plain(prompt, "prompt")
    if not preamble and not prompt:
        raise Unfit("Specify preamble and/or prompt")
    opening, closing = texts.frame
    preamble_ids, ids = texts.encode(preamble, "preamble"), texts.encode(prompt)
    fixed = len(opening) + len(preamble_ids) + len(closing)
    used, used_ids = fitted(texts, prompt, ids, budget - fixed, until)
    if fixed > budget or not (preamble or used):
        raise Unfit(f"Cannot fit the prompt in {budget} tokens while using specified stop_strings")
    whole = (*opening, *preamble_ids, *used_ids, *closing)
    return Input(preamble, used, preamble_ids, used_ids, fixed, len(ids), whole)


def fitted(texts: Texts, prompt: str, ids: Ids, room: int, until: Sequence[str]) -> tuple[str, Ids]:
    """The end of the prompt, whose tokens are `ids`, that `room` tokens hold; empty where there is none."""
    if len(ids) <= room:
        return prompt, ids
    if room <= 0:
        return "", ()
    kept, kept_ids = window(texts, prompt, ids, room)
    if not until:
        return kept, kept_ids
    for rest in cuts(kept, until):
        rest_ids = texts.encode(rest)
        if len(rest_ids) <= room:  # a text may take more tokens than it took as the end of a longer one
            return rest, rest_ids
    return "", ()


def window(texts: Texts, prompt: str, ids: Ids, room: int) -> tuple[str, Ids]:
    """The text of the last `room` tokens, or fewer where they begin inside a character."""
    for count in range(room, max(0, room - CHARACTER), -1):
        last = ids[-count:]
        text = texts.decode(last)
        if prompt.endswith(text) or not text.startswith(BROKEN):
            return text, last
    return "", ()


def cuts(text: str, until: Sequence[str]) -> Iterator[str]:
    """What is left of the text behind the first of the strings, then behind the next, and so on.

    Of strings at one place the longest counts.
    """
    start = 0
    while found := first(text, until, start):
        start = found[0] + len(found[1])
        yield text[start:]


def first(text: str, strings: Sequence[str], start: int = 0) -> tuple[int, str] | None:
    """Where the earliest of the strings stands, and which it is: of several at one place, the longest."""
    places = ((text.find(each, start), each) for each in strings)
    found = [(place, -len(each), each) for place, each in places if place >= 0]
    if not found:
        return None
    place, _, string = min(found)
    return place, string
