"""The Hub: where it is, who we are to it, and a question asked of it in its own routes.

Knows nothing of models. What its refusals mean stands in refusals.py.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import get_session
from huggingface_hub.errors import HTTPError
from huggingface_hub.utils import build_hf_headers

from inference import foreign

PATIENCE_S = 10  # for the answer to a question without which there is no verdict
SOON_S = 2.5  # for one that only makes a refusal more helpful


@dataclass(frozen=True, slots=True)
class Hub:
    """token: empty for none; cache: the folder that downloads are kept in."""

    endpoint: str
    cache: Path
    token: str = field(default="", repr=False)

    @property
    def key(self) -> str | None:
        """The token for huggingface_hub; None has it look for one that the user logged in with."""
        return self.token.strip() or None

    @property
    def headers(self) -> dict[str, str]:
        return build_hf_headers(token=self.key, library_name="hearth")

    def storage(self, name: str) -> Path:
        """The folder of a model in the cache, in the layout that all Hugging Face programs share."""
        return self.cache / f"models--{name.replace('/', '--')}"

    def ask(self, path: str, **query: Any) -> tuple[int, Any]:
        """The status of an answer, 0 where none comes soon; and its JSON, None where it has none."""
        try:
            answer = get_session().get(
                f"{self.endpoint}{path}", headers=self.headers, params=query, timeout=SOON_S
            )
        except HTTPError:
            return 0, None
        try:
            return answer.status_code, foreign.parsed(answer.content)
        except ValueError:
            return answer.status_code, None
