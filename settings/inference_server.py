"""INFERENCE_SERVER: where a model runs, as h2oGPT's --inference_server writes it. Raises BadServer.

Knows the syntax only: nothing is looked up or connected here.
"""

import ipaddress
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

ServerKind = Literal["detect", "openai", "azure", "vllm", "tgi", "gradio", "llamastack", "hearth", "link"]
Routes = Literal["both", "chat", "completions"]

NO_KEY = ("", "EMPTY", "None")
OPENAI_URL = "https://api.openai.com/v1"
AZURE_VERSION = "2024-07-01-preview"
HEADER_SEPARATOR = " " * 4
# name: (address of the vendor's OpenAI endpoint, environment variable of the key)
VENDORS: Mapping[str, tuple[str, str]] = {
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistralai": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "google": ("https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY"),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}
REFUSED = ("replicate", "sagemaker")

ADDRESS = re.compile(
    r"(?P<scheme>https?://)?(?P<host>\[[^\]]+\]|[^:/\s]+)(?::(?P<port>\d+|None)?)?(?::?(?P<path>/[^:\s]*))?"
    r"(?::(?P<rest>.*))?"
)
OPENAI = re.compile(
    r"openai(?P<chat>_chat)?(?::(?P<deployment>[^:]*)(?::(?P<base>(?:https?://)?[^:]*(?::\d+[^:]*)?)"
    r"(?::(?P<version>[^:]*)(?::(?P<key>.*))?)?)?)?"
)
AZURE = re.compile(
    r"openai_azure(?P<chat>_chat)?:(?P<deployment>[^:]+):(?:https?://)?(?P<endpoint>[^:/]+)/?"
    r"(?::(?P<version>[^:]*)(?::(?P<key>.*))?)?"
)


class BadServer(ValueError):
    """The text names no server. The message says what is wrong, without the text: it may have a key."""


@dataclass(frozen=True, slots=True)
class InferenceServer:
    """A server that answers requests for a model.

    kind      what it speaks; "detect": it is asked at the start; "link": this server has started it
    url       address without a slash at the end; of an OpenAI server, with /v1
    routes    of an OpenAI server: the routes that it has
    headers   that carry its key or login
    query     of every request, such as Azure's api-version
    dns_host  the name at each of whose addresses there is a server; empty: url is the only one
    login     a user's name and password, for servers that want them in a form
    """

    kind: ServerKind
    url: str
    routes: Routes = "both"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = ""
    dns_host: str = ""
    login: tuple[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        host = urlsplit(self.url).hostname or ""
        try:
            is_link_local = ipaddress.ip_address(host).is_link_local
        except ValueError:
            return
        if is_link_local:
            raise BadServer(f"{host} is a link-local address, which no model runs at")


def parse_server(text: str) -> InferenceServer:
    """The server that the text names. Raises BadServer."""
    if HEADER_SEPARATOR in text:
        return _with_header(text)
    word, _, rest = text.partition(":")
    if word in REFUSED:
        raise BadServer(f"{word} is not supported: put LiteLLM in front, and name its address")
    if word in VENDORS:
        url, variable = VENDORS[word]
        return InferenceServer("openai", url, headers=bearer(rest or os.environ.get(variable, "")))
    parse = PARSERS.get(word)
    return parse(text if word.startswith("openai") else rest, word) if parse else _detected(text)


def bearer(key: str) -> Mapping[str, str]:
    """The header that sends the key; none for a word that means that there is none."""
    return {} if key in NO_KEY else {"Authorization": f"Bearer {key}"}


def basic(user: str, password: str) -> Mapping[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def _detected(text: str) -> InferenceServer:
    url, rest = _address(text)
    user, colon, password = rest.partition(":")
    if rest and not colon:
        raise BadServer("must be url:port:user:password if anything follows the port")
    if not rest:
        return InferenceServer("detect", url)
    return InferenceServer("detect", url, headers=basic(user, password), login=(user, password))


def _with_header(text: str) -> InferenceServer:
    """`url    USER    AUTH`: the header authorization of TGI. USER that is no scheme is a user's name."""
    fields = text.split(HEADER_SEPARATOR)
    if len(fields) != 3:
        raise BadServer("must be url, user and authorization with four spaces between them")
    url, user, secret = fields
    is_scheme = user.lower() in ("basic", "bearer")
    headers = {"Authorization": f"{user} {secret}"} if is_scheme else basic(user, secret)
    return InferenceServer("tgi", _address(url)[0], headers=headers)


def _vllm(text: str, word: str) -> InferenceServer:
    url, rest = _address(text, default_path="/v1")
    key = rest.removeprefix("None:")  # in the place of the path
    routes: Routes = "chat" if word == "vllm_chat" else "completions"
    return InferenceServer("vllm", url, routes, bearer(key))


def _sglang(text: str, word: str) -> InferenceServer:
    return _vllm(text.partition(":")[2], "vllm_chat")  # the first word names a conversation template


def _openai(text: str, word: str) -> InferenceServer:
    if not (match := OPENAI.fullmatch(text)):
        raise BadServer("must be openai, or openai_chat:deployment:base:version:KEY, with None for a default")
    base = match["base"] if match["base"] not in (None, "", "None") else OPENAI_URL
    url = (base if "://" in base else f"https://{base}").rstrip("/")
    key = match["key"] or os.environ.get("OPENAI_API_KEY", "")
    return InferenceServer("openai", url, "chat" if match["chat"] else "completions", bearer(key))


def _azure(text: str, word: str) -> InferenceServer:
    if not (match := AZURE.fullmatch(text)):
        raise BadServer("must be openai_azure_chat:DEPLOYMENT:ENDPOINT:VERSION:KEY")
    key = match["key"] or os.environ.get("OPENAI_AZURE_KEY") or os.environ.get("OPENAI_API_KEY", "")
    version = match["version"] if match["version"] not in (None, "", "None") else AZURE_VERSION
    return InferenceServer(
        "azure",
        f"https://{match['endpoint']}/openai/deployments/{match['deployment']}",
        "chat" if match["chat"] else "completions",
        {} if key in NO_KEY else {"api-key": key},
        f"api-version={version}",
    )


def _of_kind(text: str, word: str) -> InferenceServer:
    return replace(_detected(text), kind=word)  # type: ignore[arg-type]


def _dns(text: str, word: str) -> InferenceServer:
    """dns:host:port, or the form of a kind behind dns: a host may be called as a kind is."""
    kind, _, rest = text.partition(":")
    is_host = kind not in PARSERS or rest.partition("/")[0].isdecimal()
    server = _detected(text) if is_host else parse_server(text)
    if server.url.startswith("https:"):
        raise BadServer("must not be https behind dns: a certificate is for a name, not for its addresses")
    return replace(server, dns_host=urlsplit(server.url).hostname or "")


def _address(text: str, default_path: str = "") -> tuple[str, str]:
    """(address, text behind it). Without a scheme, http:// and the default path are added."""
    if not (match := ADDRESS.fullmatch(text.strip())):
        raise BadServer("must begin with host:port, or with http:// or https:// and a host")
    port = f":{match['port']}" if match["port"] not in (None, "None") else ""
    path = match["path"] if match["path"] is not None else "" if match["scheme"] else default_path
    return f"{match['scheme'] or 'http://'}{match['host']}{port}{path}".rstrip("/"), match["rest"] or ""


PARSERS: Mapping[str, Callable[[str, str], InferenceServer]] = {
    "vllm": _vllm,
    "vllm_chat": _vllm,
    "sglang": _sglang,
    "openai": _openai,
    "openai_chat": _openai,
    "openai_azure": _azure,
    "openai_azure_chat": _azure,
    "dns": _dns,
    **dict.fromkeys(("tgi", "gradio", "llamastack", "hearth"), _of_kind),
}
