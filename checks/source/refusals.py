"""What the Hub's refusals mean, and what to do about each.

Knows huggingface_hub's exceptions; everything above sees Refused, or Unanswered where nobody is there to ask.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError

from huggingface_hub import get_session
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from checks.finding import Finding, Refused
from checks.source import near
from checks.source.hub import PATIENCE_S, Hub
from inference.foreign import TooDeep

TOKEN = re.compile("[!-~]+")
SETTING = "HUGGINGFACE_ACCESS_TOKEN"
EXAMPLE = '"Qwen/Qwen3-0.6B"'
NO_NETWORK = "check the network; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror of the Hub"
BUSY = 429
SHOWN = 60  # letters of an answer that makes no sense


class Unanswered(ConnectionError):
    """Whether there is such a model is not known: the Hub does not answer, or not now."""

    def __init__(self, why: str, mend: str = NO_NETWORK) -> None:
        super().__init__(why)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused, and what the Hub `said` of it."""

    hub: Hub
    name: str
    revision: str
    said: str

    @property
    def url(self) -> str:
        return f"{self.hub.endpoint}/{self.name}"

    @property
    def named_us(self) -> bool:
        return "authorization" in self.hub.headers


@contextmanager
def reaching(hub: Hub, name: str, revision: str) -> Iterator[None]:
    """What the Hub's client raises becomes Refused, or Unanswered where the Hub does not answer."""
    if hub.key and not TOKEN.fullmatch(hub.key):
        raise Refused(no_token(name))
    get_session().timeout = PATIENCE_S  # its own is none at all
    try:
        yield
    except Unanswered:  # an OSError, as all that fails is
        raise
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError) as error:
        passing(error, hub)
        raise Refused(refused(type(error), last_line(error), hub, name, revision)) from error
    except HTTPError as error:
        raise Unanswered(f"{hub.endpoint} does not answer ({last_line(error)})") from error
    except JSONDecodeError as error:
        raise Unanswered(f"{hub.endpoint} answers as no Hub does: {error.doc[:SHOWN]!r}…") from error
    except RecursionError as error:  # of whoever reads it
        raise Unanswered(f"{hub.endpoint} answers as no Hub does: {TooDeep()}") from error
    except ConnectionError as error:
        raise Unanswered(last_line(error)) from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refused(unwritable(f"to write in {hub.cache}", why)) from error


def no_token(name: str) -> Finding:
    """Without showing it: it may be one after all, but for a quotation mark."""
    have = f"what is in {SETTING} is no token: it holds spaces, quotation marks or letters with accents"
    return Finding("access", name, have, False, f"put a token in {SETTING} as the Hub shows it, hf_…")


def unwritable(need: str, why: str) -> Finding:
    return Finding("cache", need, why, False, "set CACHE_DIR to a folder that you may write in")


def passing(error: Exception, hub: Hub) -> None:
    """Raise Unanswered where the error says nothing of the model: the Hub is broken, or has had enough."""
    response = getattr(error, "response", None)
    status = response.status_code if response is not None else 0
    if status == BUSY:
        mend = f"wait some minutes; with a token in {SETTING} the Hub may be asked more often"
        raise Unanswered(f"{hub.endpoint} answers 429: asked too often", mend) from error
    if status >= 500:
        raise Unanswered(f"{hub.endpoint} answers {status}", "try again later") from error


def refused(kind: type[Exception], said: str, hub: Hub, name: str, revision: str) -> Finding:
    """`kind` as huggingface_hub has it, whoever asked; `said` by the Hub."""
    need = name if revision == "main" else f"{name} at {revision}"
    asked = Refusal(hub, name, revision, said)
    meaning = next((meaning for known, meaning in MEANINGS if issubclass(kind, known)), unknown_answer)
    have, mend = meaning(asked)
    return Finding("access", need, have, False, mend)


def gated(asked: Refusal) -> tuple[str, str]:
    if wrong := wrong_token(asked):
        return wrong
    if asked.named_us:
        have = "its authors have not let the account of your token in"
        return have, f"ask for it at {asked.url}, with that account; then start again once they have"
    mend = f"accept the licence at {asked.url}, then put your token in {SETTING}"
    return "its authors ask for consent", mend


def no_model(asked: Refusal) -> tuple[str, str]:
    if wrong := wrong_token(asked):
        return wrong
    if kind := near.other_kind(asked.hub, asked.name):
        return f"a {kind} of that name, and no model", f"MODEL_NAME = {EXAMPLE}, or any other model"
    found = [f'"{name}"' for name in near.models(asked.hub, asked.name)]
    private = (
        f"a private one needs {'the token of its owner' if asked.named_us else 'your token'} in {SETTING}"
    )
    mend = f"MODEL_NAME = {' or '.join(found)}" if found else "check MODEL_NAME"
    return "no such model, or a private one", f"{mend}; {private}"


def no_version(asked: Refusal) -> tuple[str, str]:
    found = near.versions(asked.hub, asked.name, asked.revision)
    if not found:
        return "no such version", f'MODEL_REVISION = "main", or one of those listed at {asked.url}/tree/main'
    more = f" and {len(found) - near.LISTED} more" if len(found) > near.LISTED else ""
    return (
        "no such version",
        f'MODEL_REVISION = "{found[0]}"; there are {", ".join(found[: near.LISTED])}{more}',
    )


def no_file(asked: Refusal) -> tuple[str, str]:
    return "a file of it is missing", f"see {asked.url}/tree/main"


def no_name(asked: Refusal) -> tuple[str, str]:
    return "not a name that a model could have", (
        'write MODEL_NAME as "owner/model", or as the path of a folder'
    )


def closed(asked: Refusal) -> tuple[str, str]:
    return "closed by the Hub for everybody", f"MODEL_NAME = {EXAMPLE}, or any other model"


def unknown_answer(asked: Refusal) -> tuple[str, str]:
    return wrong_token(asked) or (
        f"the Hub says: {asked.said}",
        f"try again later; if it is the token's rights, see {asked.hub.endpoint}/settings/tokens",
    )


def wrong_token(asked: Refusal) -> tuple[str, str] | None:
    """What to say where the Hub does not know the token: it then refuses even what is open to everyone."""
    status, told = asked.hub.ask("/api/whoami-v2") if asked.named_us else (0, None)
    if status != 401:
        return None
    said = f": {told['error']}" if isinstance(told, dict) and "error" in told else ""
    token = f"the token in {SETTING}" if asked.hub.token else "the token that you logged in with"
    mend = f"put a new one, made at {asked.hub.endpoint}/settings/tokens, in {SETTING}"
    return f"{token} is wrong or has expired{said}", mend


# The first row that fits decides: a gated repository's error is a kind of a missing repository's.
MEANINGS: tuple[tuple[type[Exception], Callable[[Refusal], tuple[str, str]]], ...] = (
    (GatedRepoError, gated),
    (RepositoryNotFoundError, no_model),
    (RevisionNotFoundError, no_version),
    (EntryNotFoundError, no_file),
    (HFValidationError, no_name),
    (DisabledRepoError, closed),
)


def untrue(name: str, etag: str, hub: Hub) -> Finding:
    """Without a hash a file's bytes cannot be proved; and no file may lie outside of its model's folder."""
    mend = f"{hub.endpoint} is no Hub to trust: HF_ENDPOINT"
    return Finding("fetch", "a file and its hash", f"the name {name!r} and the hash {etag!r}", False, mend)


def nothing_found(name: str, have: str) -> Finding:
    mend = f"set MODEL_NAME to a model on the Hub, such as {EXAMPLE}, or to a folder that holds one"
    return Finding("access", name, have, False, mend)


def last_line(error: Exception) -> str:
    """What the Hub says of it, or else its status; what huggingface_hub says has the address in it."""
    response = getattr(error, "response", None)
    status = f"{response.status_code} {response.reason_phrase}" if response is not None else str(error)
    said = getattr(error, "server_message", None) or status
    return (said.strip() or type(error).__name__).splitlines()[-1]
