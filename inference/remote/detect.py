"""Asks a server at the start what it speaks, which models it has, and how long their context is.

Sends GETs, and to h2oGPT a call that lists its models. Generates nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from inference.remote.answer_settings import answer_settings
from inference.remote.failures import UpstreamFailure
from inference.remote.http_client import MAX_DOCUMENT_BYTES, HttpClient
from inference.remote.upstreams.choices import is_count
from inference.remote.upstreams.flavours import GUIDED_VLLM
from inference.remote.upstreams.gradio.functions import read_functions, read_models
from inference.untrusted_json import parse_json
from settings.remote_model import RemoteModel

KIND_OF_OWNER: Mapping[str, str] = {"llamacpp": "llama.cpp", "sglang": "sglang"}  # of a model in the list
# Of the documents by which a server is known. A list of models or functions, or of routes, may be longer.
MAX_IDENTITY_BYTES = 64 << 10
CONNECT_TIMEOUT_S = 2.0  # a server that is asked what it is has to accept the connection within
GUIDED_BEFORE = (0, 11)  # vLLM's version with other fields of constraints


@dataclass(frozen=True, slots=True)
class Detected:
    """What a server says about itself.

    kind          a kind of InferenceServer, "llama.cpp" or "transformers"; None: unknown
    models        the names of its models
    context       of the model; None: unknown
    details       what the API of its kind needs to know of the document in which it says so
    problem       why it could not be asked; empty: it answered
    is_reachable  False: there is no connection to it
    start_id      of its last start; empty: it does not say
    """

    kind: str | None = None
    models: tuple[str, ...] = ()
    context: int | None = None
    problem: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    is_reachable: bool = True
    start_id: str = ""


def can_ask(client: HttpClient) -> bool:
    """Whether the server has a list of models: a deployment of Azure has one model, and no list."""
    return client.model.server.kind != "azure"


async def detect(client: HttpClient) -> Detected:
    """Ask the server. A server of a known kind is only asked for its models."""
    server, timeout_s = client.model.server, client.model.timeouts.probe
    if not can_ask(client):
        return Detected(server.kind)
    questions = BY_KIND.get(server.kind, [ask_openai])
    problem = ""
    for question in questions:
        try:
            async with asyncio.timeout(timeout_s):
                detected = await question(
                    client, origin(server.url) if server.kind == "detect" else server.url
                )
        except UpstreamFailure as failure:
            problem = failure.error.message
            if failure.outcome == "unreachable":
                return Detected(problem=problem, is_reachable=False)
            continue
        except (KeyError, TypeError, AttributeError, ValueError):
            problem = "it describes itself in an unknown form"
            continue
        except TimeoutError:
            return Detected(problem=f"no answer in {timeout_s:g} s")
        if detected:
            return detected
    return Detected(problem=problem or "it speaks nothing that is known here")


async def ask_hearth(client: HttpClient, url: str) -> Detected | None:
    """What another Hearth says of itself; None: it is none. url: with or without /v1."""
    url = url.removesuffix("/v1")
    document = await client.get_json(f"{url}/", MAX_IDENTITY_BYTES)
    if not isinstance(document, dict) or document.get("name") != "hearth":
        return None
    detected = await ask_openai(client, f"{url}/v1", kind="hearth")
    return detected and replace(detected, start_id=str(document.get("start_id") or ""))


async def ask_tgi(client: HttpClient, url: str) -> Detected | None:
    document = await client.get_json(f"{url}/info", MAX_IDENTITY_BYTES)
    if not isinstance(document, dict) or "model_id" not in document or "max_total_tokens" not in document:
        return None
    limits = {name: value for name, value in document.items() if is_count(value)}
    return Detected("tgi", (str(document["model_id"]),), limits.get("max_total_tokens"), details=limits)


async def ask_gradio(client: HttpClient, url: str) -> Detected | None:
    """h2oGPT is known by its function of gradio, and lists its models in another one."""
    functions = read_functions(await client.get_description(f"{url}/config", MAX_DOCUMENT_BYTES))
    if functions is None:
        return None
    models: Mapping[str, int | None] = {}
    if functions.has_model_names:
        async with client.post(functions.models_path, b'{"data":[]}') as response:
            models = read_models(parse_json(await client.read_description(response)))
    names = tuple(models)
    name = client.model.upstream_name or next(iter(names), "")
    return Detected("gradio", names, models.get(name), details={"functions": functions})


async def ask_llamastack(client: HttpClient, url: str) -> Detected | None:
    document = await client.get_json(f"{url}/v1/health", MAX_IDENTITY_BYTES)
    if document != {"status": "OK"}:
        return None
    listed = (await client.get_json(f"{url}/v1/models")).get("data") or ()
    names = [card["identifier"] for card in listed if card.get("model_type", "llm") == "llm"]
    return Detected("llamastack", tuple(names))


async def ask_transformers(client: HttpClient, url: str) -> Detected | None:
    """`transformers serve` is known by its routes: its list of models is that of the Hub's cache."""
    document = await client.get_json(f"{origin(url)}/openapi.json")
    is_transformers = document["paths"].keys() >= {"/load_model", "/reset"}
    return Detected("transformers") if is_transformers else None


async def ask_openai(client: HttpClient, url: str, kind: str = "") -> Detected | None:
    """Ask for the models. vLLM tells their context; llama.cpp has a route /props."""
    base = url if urlsplit(url).path else f"{url}/v1"
    document = await client.get_json(f"{base}/models")
    cards = document.get("data") if isinstance(document, dict) else None
    if not isinstance(cards, list):
        return None
    cards = [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
    names = tuple(card["id"] for card in cards)
    card = next((card for card in cards if card["id"] == client.model.upstream_name), (cards or [{}])[0])
    meta = card.get("meta") or {}
    contexts = (card.get("max_model_len"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    context = next((each for each in contexts if is_count(each)), None)
    owner = str(card.get("owned_by"))
    guessed = KIND_OF_OWNER.get(owner) or ("vllm" if "max_model_len" in card else "openai")
    # A Hearth, or another server with vLLM's lists, has versions of its own.
    if not kind and guessed == owner == "vllm" and await is_before(client, url, GUIDED_BEFORE):
        guessed = GUIDED_VLLM
    details = answer_settings(card.get("metadata")) if kind == "hearth" else {}
    return Detected(kind or guessed, names, context, details=details)


async def is_before(client: HttpClient, url: str, version: tuple[int, int]) -> bool:
    """Whether a vLLM says that it is older. One that does not say it is not."""
    try:
        document = await client.get_json(f"{origin(url)}/version", MAX_IDENTITY_BYTES)
        major, minor = str(document["version"]).split(".")[:2]
        return (int(major), int(minor)) < version
    except (UpstreamFailure, KeyError, TypeError, ValueError):
        return False


def origin(url: str) -> str:
    address = urlsplit(url)
    return f"{address.scheme}://{address.netloc}"


Question = Callable[[HttpClient, str], Awaitable[Detected | None]]
BY_KIND: Mapping[str, Sequence[Question]] = {
    "detect": (ask_hearth, ask_tgi, ask_gradio, ask_llamastack, ask_transformers, ask_openai),
    "openai": (ask_transformers, ask_openai),
    "hearth": (ask_hearth,),
    "link": (ask_hearth,),
    "tgi": (ask_tgi,),
    "gradio": (ask_gradio,),
    "llamastack": (ask_llamastack,),
}


async def ask(model: RemoteModel) -> Detected:
    """Ask the model's server, over connections of its own."""
    timeouts = replace(model.timeouts, connect=min(model.timeouts.connect, CONNECT_TIMEOUT_S))
    client = HttpClient(replace(model, timeouts=timeouts))
    try:
        return await detect(client)
    finally:
        await client.close()


def probe(models: tuple[RemoteModel, ...]) -> list[Detected]:
    """Ask the servers of all models at the same time. Blocks; call it while no event loop runs."""

    async def ask_all() -> list[Detected]:
        return list(await asyncio.gather(*map(ask, models)))

    return asyncio.run(ask_all())
