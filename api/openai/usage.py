"""How many tokens a request took: of each prompt once, of every answer that was generated."""

from dataclasses import dataclass, field
from typing import Any

from inference.types import Event, Finished, Started, Token


@dataclass(slots=True)
class Usage:
    """answers: to each prompt; answer k of prompt i has the index i * answers + k."""

    answers: int = 1
    prompts: dict[int, Started] = field(default_factory=dict)
    generated: dict[int, int] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.prompts.setdefault(event.index // self.answers, event)
                self.generated[event.index] = 0
            case Token():
                self.generated[event.index] += 1
            case Finished():
                self.generated[event.index] = event.tokens

    def whole(self) -> dict[str, Any]:
        prompts = self.prompts.values()
        return usage(
            sum(prompt.prompt_tokens for prompt in prompts),
            sum(self.generated.values()),
            sum(prompt.cached_tokens for prompt in prompts),
        )

    def of(self, index: int) -> dict[str, Any]:
        """Of one answer so far; of one that ended before its turn came, nothing."""
        prompt = self.prompts.get(index // self.answers, Started(index, 0, 0))
        return usage(prompt.prompt_tokens, self.generated[index], prompt.cached_tokens)


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if cached else None,
    }
