"""Explains the errors of the Hub: what each means, and how to fix it.

Converts huggingface_hub's exceptions to Refused, or to HubUnavailable if the Hub does not answer.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from ssl import SSLError

from huggingface_hub import get_session
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hub import did_you_mean
from hub.client import TIMEOUT_S, Hub
from inference.finding import Finding, Refused
from inference.untrusted_json import TooDeep

TOKEN_PATTERN = re.compile("[!-~]+")
NAME_IN_TEXT = re.compile(
    r"\s*(\w+://[^/\s]+/|(hf|huggingface)\.co/)?(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(?P<tag>[:@][\w.-]+)?(/\S*)?\s*"
)
SETTING = "HUGGINGFACE_ACCESS_TOKEN"
EXAMPLE = '"Qwen/Qwen3-0.6B"'
NO_NETWORK = "check the network; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror of the Hub"
BAD_CERTIFICATES = "check the certificates; SSL_CERT_FILE names a file with those of a proxy or mirror"
TOO_MANY_REQUESTS = 429
MAX_TEXT_LENGTH = 60  # characters shown of an invalid response


class HubUnavailable(ConnectionError):
    """The Hub does not answer, or refuses for now: whether the model exists is unknown.

    fix: what the user can do about it.
    """

    def __init__(self, why: str, fix: str = NO_NETWORK) -> None:
        super().__init__(why)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class HubRefusal:
    """A refused model and revision; `message` is the Hub's reason."""

    hub: Hub
    name: str
    revision: str
    message: str

    @property
    def url(self) -> str:
        return f"{self.hub.endpoint}/{self.name}"

    @property
    def has_token(self) -> bool:
        return "authorization" in self.hub.headers


@contextmanager
def explain_hub_errors(hub: Hub, name: str, revision: str) -> Iterator[None]:
    """Convert errors of the Hub's client to Refused, or to HubUnavailable if the Hub does not answer."""
    if hub.auth_token and not TOKEN_PATTERN.fullmatch(hub.auth_token):
        raise Refused(explain_bad_token(name))
    set_timeout()
    try:
        yield
    except HubUnavailable:  # would match ConnectionError below
        raise
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError) as error:
        raise_if_unavailable(error, hub)
        refusal = HubRefusal(hub, name, revision, last_line(error))
        raise Refused(explain_refusal(type(error), refusal)) from error
    except (HTTPError, TimeoutError) as error:
        raise HubUnavailable(f"{hub.endpoint} does not answer ({last_line(error)})") from error
    except JSONDecodeError as error:
        raise HubUnavailable(
            f"{hub.endpoint} sent an invalid response: {error.doc[:MAX_TEXT_LENGTH]!r}…"
        ) from error
    except RecursionError as error:  # from the JSON parser
        raise HubUnavailable(f"{hub.endpoint} sent an invalid response: {TooDeep()}") from error
    except OfflineModeIsEnabled as error:
        raise HubUnavailable(
            "HF_HUB_OFFLINE is set", "unset the environment variable, to fetch it"
        ) from error
    except ConnectionError as error:
        raise HubUnavailable(last_line(error)) from error
    except SSLError as error:
        raise tls_error(error) from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refused(explain_unwritable(f"to write in {hub.cache_dir}", why)) from error


def set_timeout() -> None:
    """Set the timeout of the Hub's client, which has none by default. Creates the client at the first call.

    Raises HubUnavailable if the certificates cannot be read.
    """
    try:
        get_session().timeout = TIMEOUT_S
    except OSError as error:
        raise tls_error(error) from error


def tls_error(error: OSError) -> HubUnavailable:
    return HubUnavailable(f"no TLS connection is possible ({last_line(error)})", BAD_CERTIFICATES)


def explain_bad_token(name: str) -> Finding:
    """The refusal of an invalid token. It does not show the token, which may be real except for a typo."""
    have = (
        f"the value of {SETTING} is not a token: it contains spaces, quotation marks or non-ASCII characters"
    )
    return Finding("access", name, have, False, f"set {SETTING} to a token as the Hub shows it, hf_…")


def explain_unwritable(need: str, why: str) -> Finding:
    return Finding("cache", need, why, False, "set CACHE_DIR to a writable folder")


def raise_if_unavailable(error: Exception, hub: Hub) -> None:
    """Raise HubUnavailable if the status is 429 or 5xx, which says nothing about the model."""
    response = getattr(error, "response", None)
    status = response.status_code if response is not None else 0
    if status == TOO_MANY_REQUESTS:
        fix = f"wait some minutes; a token in {SETTING} raises the rate limit"
        raise HubUnavailable(f"{hub.endpoint} answers 429: too many requests", fix) from error
    if status >= 500:
        raise HubUnavailable(f"{hub.endpoint} answers {status}", "try again later") from error


def explain_refusal(error_type: type[Exception], refusal: HubRefusal) -> Finding:
    """The finding for a refusal. error_type: the exception of huggingface_hub."""
    need = refusal.name if refusal.revision == "main" else f"{refusal.name} at {refusal.revision}"
    meaning = next(
        (meaning for known, meaning in MEANINGS if issubclass(error_type, known)), explain_unknown_error
    )
    have, fix = meaning(refusal)
    return Finding("access", need, have, False, fix)


def explain_gated(refusal: HubRefusal) -> tuple[str, str]:
    if wrong := explain_wrong_token(refusal):
        return wrong
    if refusal.has_token:
        have = "the authors have not granted access to the account of your token"
        return have, f"request access at {refusal.url} with that account, and start again when it is granted"
    fix = f"accept the licence at {refusal.url}, then put your token in {SETTING}"
    return "gated: the authors require consent to the licence", fix


def explain_no_model(refusal: HubRefusal) -> tuple[str, str]:
    if wrong := explain_wrong_token(refusal):
        return wrong
    if kind := did_you_mean.find_other_kind(refusal.hub, refusal.name):
        return f"a {kind} has this name, but no model", f"MODEL_NAME = {EXAMPLE}, or any other model"
    similar_models = [f'"{name}"' for name in did_you_mean.find_similar_models(refusal.hub, refusal.name)]
    private_note = (
        f"a private one needs {'the token of its owner' if refusal.has_token else 'your token'} in {SETTING}"
    )
    fix = f"MODEL_NAME = {' or '.join(similar_models)}" if similar_models else "check MODEL_NAME"
    return "no such model, or a private one", f"{fix}; {private_note}"


def explain_no_version(refusal: HubRefusal) -> tuple[str, str]:
    versions = did_you_mean.list_versions(refusal.hub, refusal.name, refusal.revision)
    if not versions:
        return (
            "no such version",
            f'MODEL_REVISION = "main", or a version listed at {refusal.url}/tree/main',
        )
    listed = versions[: did_you_mean.MAX_VERSIONS]
    more = f" and {len(versions) - len(listed)} more" if len(versions) > len(listed) else ""
    return (
        "no such version",
        f'MODEL_REVISION = "{versions[0]}"; the versions are {", ".join(listed)}{more}',
    )


def explain_bad_name(refusal: HubRefusal) -> tuple[str, str]:
    """The name of the model that a URL or a name with a tag contains is suggested."""
    match = NAME_IN_TEXT.fullmatch(refusal.name)
    fix = 'MODEL_NAME = "owner/model", or the path of a folder'
    if match:
        tag = "; a version is MODEL_REVISION, a file GGUF_FILE" if match["tag"] else ""
        fix = f'MODEL_NAME = "{match["name"]}"{tag}'
    return "not a valid name of a model", fix


def explain_unknown_error(refusal: HubRefusal) -> tuple[str, str]:
    return explain_wrong_token(refusal) or (
        f"the Hub says: {refusal.message}",
        f"try again later; for the permissions of the token see {refusal.hub.endpoint}/settings/tokens",
    )


def explain_wrong_token(refusal: HubRefusal) -> tuple[str, str] | None:
    """The reason and fix if the token is invalid, else None. The Hub then refuses even public models."""
    status, body = refusal.hub.get_json("/api/whoami-v2") if refusal.has_token else (0, None)
    if status != 401:
        return None
    message = f": {body['error']}" if isinstance(body, dict) and "error" in body else ""
    token = f"the token in {SETTING}" if refusal.hub.token else "the token that you logged in with"
    fix = f"create a new one at {refusal.hub.endpoint}/settings/tokens, and set {SETTING}"
    return f"{token} is wrong or has expired{message}", fix


# The first match decides: GatedRepoError is a subclass of RepositoryNotFoundError.
MEANINGS: tuple[tuple[type[Exception], Callable[[HubRefusal], tuple[str, str]]], ...] = (
    (GatedRepoError, explain_gated),
    (RepositoryNotFoundError, explain_no_model),
    (RevisionNotFoundError, explain_no_version),
    (EntryNotFoundError, lambda refusal: ("a file of the model is missing", f"see {refusal.url}/tree/main")),
    (HFValidationError, explain_bad_name),
    (DisabledRepoError, lambda _: ("disabled by the Hub", f"MODEL_NAME = {EXAMPLE}, or any other model")),
)


def explain_untrusted_file(name: str, etag: str, hub: Hub) -> Finding:
    """The refusal of a file without a valid hash, or with a path outside of the model's folder."""
    fix = f"{hub.endpoint} cannot be trusted: choose another HF_ENDPOINT"
    return Finding("fetch", "a file and its hash", f"the name {name!r} and the hash {etag!r}", False, fix)


def explain_no_such_model(name: str, have: str) -> Finding:
    fix = f"set MODEL_NAME to a model on the Hub, such as {EXAMPLE}, or to the folder of a model"
    return Finding("access", name, have, False, fix)


def last_line(error: Exception) -> str:
    """The Hub's message, else the status. huggingface_hub's own text is longer: it contains the URL."""
    response = getattr(error, "response", None)
    status = f"{response.status_code} {response.reason_phrase}" if response is not None else str(error)
    message = getattr(error, "server_message", None) or status
    return (message.strip() or type(error).__name__).splitlines()[-1]
