"""One type, from its config to its answers: the row that tells how far it came.

Goes the server's own way: load, fit, engine. Knows what is compared; not how a row is printed.
"""

import logging
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from inference.errors import ServerError, Unavailable
from inference.model import fit, load
from inference.model.architecture import unserved
from scripts.prove import answers, tiny
from scripts.prove.answers import Asked
from scripts.prove.oddities import NOTES
from scripts.prove.tiny import Kind

KV_BYTES = 1 << 26
FEWEST = 4  # different tokens in the answers: fewer would be the same whatever was computed
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a type.

    seat     how it runs; "refused" where the server says why it does not; "" where the way ended before
    error    of a logit in standard deviations, as fit.choose found it
    alone    its answers are right, each asked for by itself; mixed: in company
    departs  prompts for which `generate` departs from the model's own forward, which is then right
    why      why not, in one line, or what else to know
    """

    kind: Kind
    seat: str = ""
    error: float | None = None
    alone: bool = False
    mixed: bool = False
    departs: int = 0
    why: str = ""

    @property
    def exact(self) -> bool:
        return self.alone and self.mixed

    @property
    def refused(self) -> bool:
        return self.seat == REFUSED

    @property
    def wrong(self) -> bool:
        """It would answer, and not as it should."""
        return bool(self.seat) and not self.refused and not self.exact


def prove(kind: Kind, folder: Path) -> Row:
    """The row of a type, whose model is written to `folder`."""
    logging.disable()
    row = Row(kind)
    if why := unserved({"model_type": kind.type}):
        return replace(row, seat=REFUSED, why=why)
    try:
        tiny.save(kind, folder)
    except Exception as error:  # whatever the code of any model raises
        return replace(row, why=f"no tiny model: {line(error)}")
    try:
        return served(row, folder)
    except ServerError as error:
        return replace(row, seat=REFUSED, why=line(error))
    except Exception as error:
        return replace(row, why=line(error))


def served(row: Row, folder: Path) -> Row:
    """Load the model, and compare what it answers before and after it is fitted to a seat."""
    loaded = load.load(folder, dtype="float32", device="cpu", trust_remote_code=False)
    asked = answers.asked(loaded.model, loaded.vocab)
    told = [generated(loaded.model, prompt, asked.suppressed) for prompt in asked.prompts]
    fitted = seats(loaded.model)
    row = replace(row, seat=" + ".join(one.name for one in fitted), error=max(one.error for one in fitted))
    engines = [answers.Served(one.runner, asked) for one in fitted]
    try:
        alone, mixed = [engine.alone() for engine in engines], [engine.mixed() for engine in engines]
    except Exception as error:
        return replace(row, why=f"engine: {line(error)}")
    truths = judged(loaded.model, asked, told, [*alone, *mixed])
    departs = sum(truth != one for truth, one in zip(truths, told, strict=True))
    same = [all(found == truths for found in each) for each in (alone, mixed)]
    if len({token for truth in truths for token in truth}) < FEWEST:
        return replace(row, why="its answers say too little to compare")
    why = NOTES.get(row.kind.type, "") if all(same) else "other tokens"
    return replace(row, alone=same[0], mixed=same[1], departs=departs, why=why)


def generated(model: Any, prompt: answers.Ids, suppressed: answers.Ids) -> answers.Ids | None:
    """What transformers answers; None where its `generate` cannot drive the model."""
    try:
        return answers.generated(model, prompt, suppressed)
    except Exception:  # whatever the code of any model raises
        return None


def judged(
    model: Any, asked: Asked, told: list[answers.Ids | None], found: list[list[answers.Ids]]
) -> list[answers.Ids]:
    """The right answers: those of `generate`, but where others were found those of the model's forward."""
    truths = []
    for prompt, truth, *ours in zip(asked.prompts, told, *found, strict=True):
        if truth is None or any(one != truth for one in ours):
            truth = answers.forwarded(model, prompt, asked.suppressed)
        truths.append(truth)
    return truths


def seats(model: Any) -> list[fit.Fitted]:
    """Every kind of seat that is right for the model: the clock chooses among them where it is served."""
    choose = partial(
        fit.choose, model, max_rows=answers.ROWS, context=answers.CONTEXT, kv_bytes=KV_BYTES, timed=False
    )
    first = choose()
    second = choose(kinds=("slots", "solo")) if first.seat == "packed" else first
    found = [first, second] if second.seat == "slots" != first.seat else [first]
    try:
        # The last, as its weights are native matrices from then on. Those it has where the clock may decide.
        return [choose(kinds=("fused",), timed=True), *found]
    except Unavailable:
        return found


def line(error: Exception) -> str:
    """What an error says, in one line; of what is not ours the first sentence."""
    told = " ".join(str(error).split())
    return told if isinstance(error, ServerError) else f"{type(error).__name__}: {told.partition('. ')[0]}"
