"""The connection to the Hub: its address, the user's token, and GET requests to its JSON routes.

errors.py explains the Hub's refusals.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import get_session
from huggingface_hub.errors import HTTPError
from huggingface_hub.utils import build_hf_headers

from inference import untrusted_json

DATASETS = "datasets/"  # begins the Hub's paths of datasets; no model's owner has this name
TIMEOUT_S = 10  # for requests that the preflight report needs
HINT_TIMEOUT_S = 2.5  # for requests that only add a hint to a refusal


@dataclass(frozen=True, slots=True)
class Hub:
    """The Hub's URL, the folder of all downloads, and the user's token; empty for none."""

    endpoint: str
    cache_dir: Path
    token: str = field(default="", repr=False)

    @property
    def auth_token(self) -> str | None:
        """The token for huggingface_hub. None: it looks for the token that the user logged in with."""
        return self.token.strip() or None

    @property
    def headers(self) -> dict[str, str]:
        return build_hf_headers(token=self.auth_token, library_name="hearth")

    def model_folder(self, name: str) -> Path:
        """The folder of a model in the cache, or of a dataset, whose name begins with DATASETS."""
        kind = "" if name.startswith(DATASETS) else "models--"
        return self.cache_dir / f"{kind}{name.replace('/', '--')}"

    def get_json(self, path: str, **query: Any) -> tuple[int, Any]:
        """GET a route. Returns the status (0: no response in time) and the JSON (None: not JSON)."""
        try:
            response = get_session().get(
                f"{self.endpoint}{path}", headers=self.headers, params=query, timeout=HINT_TIMEOUT_S
            )
        except HTTPError:
            return 0, None
        try:
            return response.status_code, untrusted_json.parse_json(response.content)
        except ValueError:
            return response.status_code, None
