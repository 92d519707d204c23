"""What a reply is to look like, whatever is said in it: its heading, and what the body asked to be told."""

import time
from dataclasses import dataclass, field
from typing import Any

from flask import g

from api.access import request_id
from api.openai.bodies import GeneratingBody
from api.settings import AppSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """n               choices to each prompt
    answers         generated to each prompt, of which the n best are the choices
    prompts         in the request
    logprobs        alternatives to show with each token; None: no logprobs
    prompt_logprobs the same, of the prompt's tokens
    as_ids          tokens with logprobs are written token_id:123
    token_ids       the ids of prompt and answer are shown
    most            tokens an answer may have, where it is known: the last of so many is told with the end
    usage           the stream's last chunk tells the whole usage
    continuous      every chunk tells its choice's usage
    roles           every delta of a stream has a role and tool_calls, as TGI's clients need
    """

    id: str
    model: str
    fingerprint: str
    n: int = 1
    answers: int = 1
    prompts: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    most: int | None = None
    as_ids: bool = False
    token_ids: bool = False
    usage: bool = False
    continuous: bool = False
    roles: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def heading(self, kind: str) -> dict[str, Any]:
        """What every object of the reply begins with, in its order."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def shape(body: GeneratingBody, prefix: str, model: str, settings: AppSettings, **own: Any) -> Shape:
    """`prefix`: of the id; `model`: its name in the reply; `own`: what the kind of body decides."""
    options = body.stream_options
    usage = bool(options and options.include_usage)
    return Shape(
        id=f"{prefix}-{request_id(body.request_id or g.get('request_id'))}",
        model=model,
        fingerprint=fingerprint(settings),
        n=body.n or 1,
        answers=body.best_of or body.n or 1,
        prompt_logprobs=body.prompt_logprobs,
        as_ids=bool(body.return_tokens_as_token_ids),
        token_ids=bool(body.return_token_ids),
        usage=usage,
        continuous=usage and bool(options and options.continuous_usage_stats),
        **own,
    )


def fingerprint(settings: AppSettings) -> str:
    return f"hearth-{settings.version}"
