"""What the Hub's refusals mean, and what to do about each.

Knows huggingface_hub's exceptions; everything above sees Refused, or ConnectionError where nobody answers.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
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


@contextmanager
def reaching(name: str, revision: str) -> Iterator[None]:
    """What the Hub's client raises becomes Refused; ConnectionError where the Hub does not answer."""
    try:
        yield
    except LocalEntryNotFoundError as error:
        raise ConnectionError(f"{constants.ENDPOINT} does not answer") from error
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError) as error:
        raise Refused(refusal(error, name, revision)) from error
    except HTTPError as error:
        raise ConnectionError(f"{constants.ENDPOINT} does not answer ({error})") from error


def refusal(error: Exception, name: str, revision: str) -> Finding:
    need = name if revision == "main" else f"{name} at {revision}"
    for kind, have, mend in REFUSALS:
        if isinstance(error, kind):
            return Finding("access", need, have, False, mend.format(url=f"{constants.ENDPOINT}/{name}"))
    return Finding("access", need, f"the Hub says: {last_line(error)}", False, "try again later")


def nothing_found(name: str, have: str) -> Finding:
    mend = 'set MODEL_NAME to a model on the Hub, such as "Qwen/Qwen3-0.6B", or to a folder that holds one'
    return Finding("access", name, have, False, mend)


def last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
