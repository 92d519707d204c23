"""Texts to vectors, as a Backend is asked for them: checked and tokenised here, computed as an errand.

Knows the engine's errands and how prompts become ids; the computation is handed in.
"""

from collections.abc import Callable, Sequence

from inference.engine.engine import Engine
from inference.engine.errand import Errand, Work
from inference.errors import BadRequest, TooLong
from inference.local.limits import check_ids
from inference.local.prompt import Prompts, check_unicode
from inference.types import Embedding, GenerationRequest

MOST = 2048  # inputs of one call, as in OpenAI's API reference, "Create embeddings"

Ids = tuple[int, ...]
Embed = Callable[[Sequence[Ids]], Work[list[tuple[float, ...]]]]
Input = str | Sequence[int]


def embedded(engine: Engine, embed: Embed, prompts: Prompts, inputs: Sequence[Input]) -> list[Embedding]:
    """A vector for each input; blocks until all are computed, one a turn of the loop. Raises ServerError."""
    if not 0 < len(inputs) <= MOST:
        raise BadRequest("input", f"must hold 1 to {MOST} texts", len(inputs))
    texts = [ids_of(each, prompts) for each in inputs]
    vectors = engine.run(Errand(embed(texts))).result()
    return [Embedding(vector, len(ids)) for vector, ids in zip(vectors, texts, strict=True)]


def ids_of(given: Input, prompts: Prompts) -> Ids:
    """The tokens of an input, those of a prompt of the same text. Raises BadRequest, TooLong."""
    if not given:
        raise BadRequest("input", "must not hold an empty text")
    if isinstance(given, str):
        check_unicode(given, "input")
    else:
        check_ids("input", given, prompts.vocab)
    try:
        return prompts.ids(GenerationRequest(given, max_tokens=0))
    except TooLong as error:
        raise TooLong("input", error.limit, error.tokens, error.rule) from None
