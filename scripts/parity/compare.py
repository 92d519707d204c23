"""Compares the greedy answers of one model type, and makes its row of the table.

Loads the model, selects runners and generates as the server does. Does not know the table's format.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inference.errors import ServerError, Unavailable
from inference.model.load import loader
from inference.model.load.architecture import why_unsupported
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import SelectedRunner, select_runner
from scripts.parity import generate, tiny_model
from scripts.parity.generate import Ids, Prompts
from scripts.parity.overrides import NOTES
from scripts.parity.tiny_model import ModelType
from settings.groups import ModelSettings

KV_BYTES = 1 << 26
MIN_DISTINCT_TOKENS = 4  # over all answers: with fewer, a wrong model could give the right answers
REFUSED = "refused"
UNPAGED = RunnerRules(("contiguous", "uncached"), timed=False)


@dataclass(frozen=True, slots=True)
class Row:
    """The result for one type.

    runner          the compared runners; "refused" if the server refuses the type; "" if it failed before
    error           the largest error of a logit in standard deviations of the logits, from select_runner;
                    None if not measured
    is_exact_alone  all answers are right if each prompt is computed alone
    is_exact_mixed  all answers are right in batches of several prompts
    num_generate_mismatches  prompts for which `generate` fails, or differs from the expected answer, which is
                    then that of the model's forward
    reason          one line: why the type is not exact, or a remark
    """

    model_type: ModelType
    runner: str = ""
    error: float | None = None
    is_exact_alone: bool = False
    is_exact_mixed: bool = False
    num_generate_mismatches: int = 0
    reason: str = ""

    @property
    def is_exact(self) -> bool:
        return self.is_exact_alone and self.is_exact_mixed

    @property
    def is_refused(self) -> bool:
        return self.runner == REFUSED

    @property
    def is_wrong(self) -> bool:
        """The server serves the type, but at least one answer is wrong."""
        return bool(self.runner) and not self.is_refused and not self.is_exact


def compare_type(model_type: ModelType, folder: Path) -> Row:
    """The row of a type. Writes its tiny model to `folder`."""
    logging.disable()
    row = Row(model_type)
    if reason := why_unsupported({"model_type": model_type.type}):
        return replace(row, runner=REFUSED, reason=reason)
    try:
        tiny_model.save(model_type, folder)
    except Exception as error:  # a model's code may raise anything
        return replace(row, reason=f"no tiny model: {one_line(error)}")
    try:
        return compare_answers(row, folder)
    except ServerError as error:
        return replace(row, runner=REFUSED, reason=one_line(error))
    except Exception as error:
        return replace(row, reason=one_line(error))


def compare_answers(row: Row, folder: Path) -> Row:
    """Load the model and compare the answers of every runner with those of transformers."""
    loaded = loader.load(folder, ModelSettings(dtype="float32", device="cpu"))
    prompts = generate.make_prompts(loaded.model, loaded.vocab)
    generated = [try_generate(loaded.model, prompt, prompts.suppressed) for prompt in prompts.token_ids]
    runners = select_runners(loaded.model)
    row = replace(
        row, runner=" + ".join(each.name for each in runners), error=max(each.error for each in runners)
    )
    engines = [generate.ParityEngine(each.runner, prompts) for each in runners]
    try:
        alone = [engine.answer_alone() for engine in engines]
        mixed = [engine.answer_mixed() for engine in engines]
    except Exception as error:
        return replace(row, reason=f"engine: {one_line(error)}")
    expected = expected_answers(loaded.model, prompts, generated, [*alone, *mixed])
    if len({token for expected_ids in expected for token in expected_ids}) < MIN_DISTINCT_TOKENS:
        return replace(row, reason="the answers have too few different tokens to compare")
    row = replace(
        row,
        is_exact_alone=all(run_answers == expected for run_answers in alone),
        is_exact_mixed=all(run_answers == expected for run_answers in mixed),
        num_generate_mismatches=sum(
            theirs != right for theirs, right in zip(generated, expected, strict=True)
        ),
    )
    return replace(row, reason=NOTES.get(row.model_type.type, "") if row.is_exact else "other tokens")


def try_generate(model: Any, prompt: Ids, suppressed: Ids) -> Ids | None:
    """The answer of transformers' `generate`; None if it fails."""
    try:
        return generate.generate_answer(model, prompt, suppressed)
    except Exception:  # a model's code may raise anything
        return None


def expected_answers(
    model: Any, prompts: Prompts, generated: list[Ids | None], answers_by_run: list[list[Ids]]
) -> list[Ids]:
    """The answers of `generate`, or of the model's forward where `generate` fails or an answer differs."""
    expected = []
    for prompt, expected_ids, *our_answers in zip(prompts.token_ids, generated, *answers_by_run, strict=True):
        if expected_ids is None or any(each != expected_ids for each in our_answers):
            expected_ids = generate.forward_answer(model, prompt, prompts.suppressed)
        expected.append(expected_ids)
    return expected


def select_runners(model: Any) -> list[SelectedRunner]:
    """The correct runners of each kind that a server could select for the model."""
    limits = RunnerLimits(max_sequences=generate.ROWS, context=generate.CONTEXT, kv_memory_bytes=KV_BYTES)
    first = select_runner(model, limits, RunnerRules(timed=False))
    second = select_runner(model, limits, UNPAGED) if first.runner_kind == "paged" else first
    selected = [first, second] if second.runner_kind == "contiguous" != first.runner_kind else [first]
    try:
        # Last, because it replaces the weights with native matrices, which only a timed selection does.
        return [select_runner(model, limits, RunnerRules(kinds=("fused",))), *selected]
    except Unavailable:
        return selected


def one_line(error: Exception) -> str:
    """The error's message in one line; for other errors than ServerError, its type and first sentence."""
    message = " ".join(str(error).split())
    return (
        message if isinstance(error, ServerError) else f"{type(error).__name__}: {message.partition('. ')[0]}"
    )
