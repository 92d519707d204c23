"""Submitted requests with their outputs, and whether these are correct."""

from dataclasses import dataclass, field
from typing import Protocol

import pytest

from inference.engine.sampling.sampler import SampledToken
from inference.engine.step_output import PromptLogprob, StepOutput
from inference.types import GenerationRequest


class ReferenceOutputs(Protocol):
    """Answers as computed alone.

    tolerance  how far a logprob may differ
    """

    tolerance: float

    def choices(self, request: GenerationRequest) -> list[SampledToken]:
        """The tokens of an answer; the last one's id is below 0 if the answer must fail."""
        ...

    def scores(self, request: GenerationRequest) -> list[PromptLogprob]: ...


@dataclass(eq=False)
class TrackedRequest:
    """A request, its outputs, and whether an injected fault hit it."""

    id: int
    generation_request: GenerationRequest
    outputs: list[StepOutput] = field(default_factory=list)
    blamed: bool = False
    cancelled: bool = False

    @property
    def token_ids(self) -> list[int]:
        return [id for record in self.outputs for id in record.token_ids]

    @property
    def logprobs(self) -> list[float]:
        return [logprob for record in self.outputs for logprob in record.logprobs]

    @property
    def finish_reason(self) -> str:
        """Why the request ended; empty while it runs."""
        last = self.outputs[-1] if self.outputs else StepOutput()
        return "error" if last.error else last.finish_reason

    def put(self, output: StepOutput) -> None:
        self.outputs.append(output)


def check_request(request: TrackedRequest, reference: ReferenceOutputs, stopped: bool) -> None:
    """Asserts that the request ended for the right reason, and that its tokens begin the expected answer."""
    choices = reference.choices(request.generation_request)
    stop_token_ids = request.generation_request.stop_token_ids
    broken = bool(choices) and choices[-1].id < 0
    expected_tokens = choices[: len(request.token_ids)]
    assert request.token_ids == [choice.id for choice in expected_tokens]
    assert request.logprobs == pytest.approx(
        [c.logprob for c in expected_tokens if c.logprob is not None], abs=reference.tolerance
    )
    match request.finish_reason:
        case "error":
            error = str(request.outputs[-1].error)
            innocent = not broken and (not request.blamed or "not a number" in error)
            assert stopped or not innocent, f"{error}: {request.generation_request}"
        case "stop":
            assert (
                len(expected_tokens) == len(choices)
                and not broken
                and expected_tokens[-1].id in stop_token_ids
            )
        case "length":
            assert (
                len(expected_tokens) == len(choices)
                and not broken
                and not (expected_tokens and expected_tokens[-1].id in stop_token_ids)
            )
        case "deadline":
            assert request.generation_request.deadline is not None
        case _:
            assert request.finish_reason == "cancelled" and request.cancelled
    first = request.outputs[0]
    if first.error is None and first.finish_reason not in ("cancelled", "deadline"):
        scores = reference.scores(request.generation_request)
        expected = [score.logprob for score in scores[1:]]
        assert len(first.prompt_logprobs) == len(scores)
        assert [score.logprob for score in first.prompt_logprobs[1:]] == pytest.approx(
            expected, abs=reference.tolerance
        )
        assert reference.tolerance > 1e-4 or [s.rank for s in first.prompt_logprobs] == [
            s.rank for s in scores
        ]
