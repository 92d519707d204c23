"""One type, from its config to its answers: the row that tells how far it came.

Goes the server's own way: load, fit, engine. Knows what is compared; not how a row is printed.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inference.errors import ServerError
from inference.model import fit, load
from inference.model.slots import SlotRunner
from inference.model.trial import ordinary_ids
from scripts.prove import answers, tiny
from scripts.prove.tiny import Kind

KV_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a type.

    seat   how it runs; "refused" where the server says why it does not; "" where the way ended before
    error  of a logit in standard deviations, as fit.choose found it
    alone  its answers are transformers', each asked for by itself; mixed: in company
    why    why not, in one line
    """

    kind: Kind
    seat: str = ""
    error: float | None = None
    alone: bool = False
    mixed: bool = False
    why: str = ""

    @property
    def exact(self) -> bool:
        return self.alone and self.mixed

    @property
    def refused(self) -> bool:
        return self.seat == REFUSED

    @property
    def wrong(self) -> bool:
        """It would answer, and not as transformers does."""
        return bool(self.seat) and not self.refused and not self.exact


REFUSED = "refused"


def prove(kind: Kind, folder: Path) -> Row:
    """The row of a type, whose model is written to `folder`."""
    row = Row(kind)
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
    asked = answers.prompts(ordinary_ids(loaded.model))
    truths: list[answers.Ids] | Exception
    try:
        truths = [answers.generated(loaded.model, prompt) for prompt in asked]
    except Exception as error:
        truths = error
    fitted = fit.choose(loaded.model, max_rows=answers.ROWS, context=answers.CONTEXT, kv_bytes=KV_BYTES)
    row = replace(row, seat=seat(fitted), error=fitted.error)
    if isinstance(truths, Exception):
        return replace(row, why=f"generate: {line(truths)}")
    engine = answers.engine(fitted.runner, loaded.vocab)
    try:
        alone = [answers.alone(engine, prompt) for prompt in asked] == truths
        mixed = answers.in_company(engine, asked) == truths
    except Exception as error:
        return replace(row, why=f"engine: {line(error)}")
    return replace(row, alone=alone, mixed=mixed, why="" if alone and mixed else "other tokens")


def seat(fitted: fit.Fitted) -> str:
    runner: Any = fitted.runner
    return fit.WAYS[runner.resumes, runner.together] if isinstance(runner, SlotRunner) else fitted.seat


def line(error: Exception) -> str:
    told = " ".join(str(error).split())
    return told if isinstance(error, ServerError) else f"{type(error).__name__}: {told}"
