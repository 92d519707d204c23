"""The Hub: where it is and who we are to it, what its refusals mean, and what to do about each.

Knows huggingface_hub's exceptions; everything above sees Refused, or ConnectionError where nobody answers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from checks.finding import Finding, Refused

# The first row that fits decides: a gated repository's error is a kind of a missing repository's.
REFUSALS: tuple[tuple[type[Exception], str, str], ...] = (
    (
        GatedRepoError,
        "its authors ask for consent",
        "accept the licence at {url}, then put your token in HUGGINGFACE_ACCESS_TOKEN",
    ),
    (
        RepositoryNotFoundError,
        "no such model, or a private one",
        "check MODEL_NAME; a private model needs your token in HUGGINGFACE_ACCESS_TOKEN",
    ),
    (
        RevisionNotFoundError,
        "no such version",
        'set MODEL_REVISION = "main", or one of those listed at {url}/tree/main',
    ),
    (EntryNotFoundError, "a file of it is missing", "see {url}/tree/main"),
    (
        HFValidationError,
        "not a name that a model could have",
        'write MODEL_NAME as "owner/model", or as the path of a folder',
    ),
)


@dataclass(frozen=True, slots=True)
class Hub:
    """token: empty for none; cache: the folder that downloads are kept in."""

    endpoint: str
    cache: Path
    token: str = field(default="", repr=False)

    @property
    def key(self) -> str | None:
        """The token for huggingface_hub; None has it look for one that the user logged in with."""
        return self.token or None

    def storage(self, name: str) -> Path:
        """The folder of a model in the cache, in the layout that all Hugging Face programs share."""
        return self.cache / f"models--{name.replace('/', '--')}"


@contextmanager
def reaching(hub: Hub, name: str, revision: str) -> Iterator[None]:
    """What the Hub's client raises becomes Refused; ConnectionError where the Hub does not answer."""
    try:
        yield
    except LocalEntryNotFoundError as error:
        raise ConnectionError(f"{hub.endpoint} does not answer") from error
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError) as error:
        raise Refused(refusal(error, hub, name, revision)) from error
    except HTTPError as error:
        raise ConnectionError(f"{hub.endpoint} does not answer ({error})") from error


def refusal(error: Exception, hub: Hub, name: str, revision: str) -> Finding:
    return refused(type(error), last_line(error), hub, name, revision)


def refused(kind: type[Exception], said: str, hub: Hub, name: str, revision: str) -> Finding:
    """`kind` as huggingface_hub has it, whoever asked; `said` by the Hub."""
    need = name if revision == "main" else f"{name} at {revision}"
    for known, have, mend in REFUSALS:
        if issubclass(kind, known):
            return Finding("access", need, have, False, mend.format(url=f"{hub.endpoint}/{name}"))
    return Finding("access", need, f"the Hub says: {said}", False, "try again later")


def nothing_found(name: str, have: str) -> Finding:
    mend = 'set MODEL_NAME to a model on the Hub, such as "Qwen/Qwen3-0.6B", or to a folder that holds one'
    return Finding("access", name, have, False, mend)


def last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
