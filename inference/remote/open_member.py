"""Opens a model at one server that has been asked what it is: its kind, API, name and tokenizer."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from inference.errors import ServerError, error_line
from inference.remote.answer_settings import answer_settings, disagreement
from inference.remote.detect import Detected
from inference.remote.members.member import Clean, Member, ToText
from inference.remote.tokenizers.remote_tokenizer import WITH_TOKENIZER, RemoteTokenizer
from inference.remote.tokenizers.vllm_tokenizer import VllmTokenizer
from inference.remote.upstreams.cleaned_reader import with_cleaned_answers
from inference.remote.upstreams.flavours import FLAVOURS, GUIDED_VLLM
from inference.remote.upstreams.gradio.gradio import GradioApi
from inference.remote.upstreams.llamastack import LlamaStackApi
from inference.remote.upstreams.openai import OpenAIApi
from inference.remote.upstreams.prompt_types import as_text, prompt_type_of, type_name_of
from inference.remote.upstreams.tgi import TgiApi
from inference.remote.upstreams.upstream_api import UpstreamApi, UpstreamTokenizer
from settings.remote_model import RemoteModel

if TYPE_CHECKING:
    from inference.remote.tokenizers.local_tokenizer import LocalTokenizer

OPENAI_HOST = "api.openai.com"
OPENAI_PATH = "/v1"
PRIVATE_DOMAINS = frozenset({"home", "internal", "lan", "local", "localhost", "svc"})
VLLM_KINDS = frozenset({"vllm", GUIDED_VLLM})
GRADIO = "gradio"  # must be running at the start: it says itself how it is called

log = logging.getLogger(__name__)


class CannotOpen(ServerError):
    """A model cannot be served. The message is shown to the user at the start."""


def open_member(model: RemoteModel, detected: Detected, suffix: str = "") -> tuple[Member, str]:
    """Open a model at one server. Returns the server's kind too. Raises CannotOpen."""
    kind = kind_of(model, detected)
    check_openable(model, detected, kind)
    upstream_name = name_at_server(model, detected)
    model = replace(
        model, name=model.name or upstream_name, server=replace(model.server, url=url_of(model, kind))
    )
    if detected.problem:
        log.warning("event=no_response model=%s: %s", model.name, detected.problem)
    if sends_key_in_clear(model):
        log.warning(
            "event=key_in_clear model=%s: its key goes over http to a public host: use https", model.name
        )
    local_tokenizer = open_local_tokenizer(model, detected)
    tokenizer = local_tokenizer or open_remote_tokenizer(model, detected, kind, upstream_name)
    typed = with_prompt_type(model, model.upstream_name or upstream_name, local_tokenizer)
    to_text, clean = text_form(typed, kind, local_tokenizer)
    member = Member(
        model,
        APIS[kind](model, upstream_name, kind, detected.details),
        tokenizer,
        suffix=suffix,
        settings=answer_settings(detected.details),
        start_id=detected.start_id,
        to_text=to_text,
        clean=clean,
    )
    return member, kind


def check_openable(model: RemoteModel, detected: Detected, kind: str) -> None:
    """Raise CannotOpen for a server that is unknown, does not respond, or cannot serve the model."""
    shown_name = model.name or "INFERENCE_SERVER"
    if kind == "detect":
        fix = "name its kind in front of the address, for example vllm_chat:host:port"
        raise CannotOpen(f"the server of {shown_name} is unknown: {detected.problem}: {fix}")
    if detected.problem and (model.must_connect or not model.name or kind == GRADIO):
        fix = "start it, or correct its address"
        raise CannotOpen(f"the server of {shown_name} does not respond: {detected.problem}: {fix}")
    if kind not in APIS:
        kinds = ", ".join(APIS)
        raise CannotOpen(f"{shown_name}: servers of the kind {kind} are not supported yet: {kinds} are")
    if model.prompt_type and prompt_type_of(model) is None:
        raise CannotOpen(f"{shown_name}: prompt_type {model.prompt_type!r} is none of h2oGPT's")


def sends_key_in_clear(model: RemoteModel) -> bool:
    """Whether the model's key can be read on the way to a host of the internet."""
    address = urlsplit(model.server.url)
    if address.scheme != "http" or not (model.server.headers or model.headers or model.server.login):
        return False
    host = address.hostname or ""
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and host.rpartition(".")[2] not in PRIVATE_DOMAINS


def check_agreement(members: Sequence[Member]) -> None:
    """Raise CannotOpen if a server of a model would answer differently from one before it."""
    for number, member in enumerate(members):
        if problem := disagreement(member.settings, [each.settings for each in members[:number]]):
            raise CannotOpen(f"{member.name}: {problem}")


def with_prompt_type(model: RemoteModel, base_model: str, tokenizer: "LocalTokenizer | None") -> RemoteModel:
    """The model. Without a template, on a server that only completes text, it has h2oGPT's type for it."""
    has_template = tokenizer is not None and tokenizer.has_template
    if model.prompt_type or has_template or model.server.routes != "completions":
        return model
    return replace(model, prompt_type=type_name_of(base_model))


def text_form(
    model: RemoteModel, kind: str, tokenizer: "LocalTokenizer | None"
) -> tuple[ToText | None, Clean | None]:
    """What makes text of conversations for a server that is to complete it, and what cleans its answers.

    None: they stay messages; the answers stay as they are.
    """
    if model.prompt_type and kind != GRADIO:  # h2oGPT itself has the prompt type
        prompt_type = prompt_type_of(model)
        assert prompt_type is not None, "the start refuses an unknown type"
        clean = partial(with_cleaned_answers, strips_space=prompt_type.strip_leading_space)
        return partial(as_text, model=model), clean
    is_templated = bool(model.chat_template) or model.server.routes == "completions"
    return (tokenizer.to_text if tokenizer and tokenizer.has_template and is_templated else None), None


def open_local_tokenizer(model: RemoteModel, detected: Detected) -> "LocalTokenizer | None":
    """The tokenizer of the entry; None: it names none. Raises CannotOpen."""
    if not model.tokenizer_folder:
        if model.chat_template:
            raise CannotOpen(f"{model.name}: chat_template needs the tokenizer of tokenizer_base_model")
        return None
    from inference.remote.tokenizers.local_tokenizer import LocalTokenizer

    folder = Path(model.tokenizer_folder).expanduser()
    if not folder.is_dir():
        fix = "must be a folder on this machine with the files of a tokenizer"
        raise CannotOpen(f"{model.name}: tokenizer_base_model {fix}, got {model.tokenizer_folder!r}")
    try:
        return LocalTokenizer(folder, model.context or detected.context, model.chat_template)
    except (OSError, ValueError, ServerError) as error:
        raise CannotOpen(f"{model.name}: tokenizer_base_model: {error_line(error)}") from None


def open_remote_tokenizer(
    model: RemoteModel, detected: Detected, kind: str, upstream_name: str
) -> UpstreamTokenizer | None:
    """The server's own tokenizer; None: it shares none."""
    if kind in WITH_TOKENIZER and upstream_name == next(iter(detected.models), None):
        # The routes name no model: they are about the server's first one.
        return RemoteTokenizer(model, upstream_name, has_detokenizer=kind == "hearth")
    return VllmTokenizer(model, upstream_name) if kind in VLLM_KINDS else None


def kind_of(model: RemoteModel, detected: Detected) -> str:
    """The kind of server. What an OpenAI server says about itself is more exact than its setting."""
    kind = model.server.kind
    is_exacter = kind in ("detect", "openai") or (kind == "vllm" and detected.kind != "openai")
    return detected.kind if detected.kind and is_exacter else kind


def name_at_server(model: RemoteModel, detected: Detected) -> str:
    """The model's name for its server. As in h2oGPT, the only model of a server is meant by any name."""
    is_listed = model.upstream_name in detected.models
    if detected.models and not model.upstream_name:
        return detected.models[0]
    if model.takes_listed_name and len(detected.models) == 1 and not is_listed:
        return detected.models[0]
    return model.upstream_name


def url_of(model: RemoteModel, kind: str) -> str:
    """The address with /v1, for an OpenAI server that was named by its host alone."""
    has_path = model.server.url.count("/") > 2
    return model.server.url if has_path or kind not in FLAVOURS else f"{model.server.url}{OPENAI_PATH}"


def make_openai_api(
    model: RemoteModel, upstream_name: str, kind: str, details: Mapping[str, Any]
) -> UpstreamApi:
    is_compatible = kind == "openai" and OPENAI_HOST not in model.server.url
    return OpenAIApi(model, FLAVOURS["compatible" if is_compatible else kind], upstream_name)


def make_tgi_api(
    model: RemoteModel, upstream_name: str, kind: str, details: Mapping[str, Any]
) -> UpstreamApi:
    return TgiApi(model, upstream_name, details)


def make_llamastack_api(
    model: RemoteModel, upstream_name: str, kind: str, details: Mapping[str, Any]
) -> UpstreamApi:
    return LlamaStackApi(model, upstream_name)


def make_gradio_api(
    model: RemoteModel, upstream_name: str, kind: str, details: Mapping[str, Any]
) -> UpstreamApi:
    """Raises CannotOpen for a server that has not said how it is called."""
    if "functions" not in details:
        raise CannotOpen(f"{model.name}: a gradio server must be running when this server starts")
    return GradioApi(model, upstream_name, details["functions"])


MakeApi = Callable[[RemoteModel, str, str, Mapping[str, Any]], UpstreamApi]
# kind of server: what makes its UpstreamApi, of the model, its name there, the kind, and Detected.details
APIS: Mapping[str, MakeApi] = {
    **dict.fromkeys(FLAVOURS, make_openai_api),
    "tgi": make_tgi_api,
    "llamastack": make_llamastack_api,
    GRADIO: make_gradio_api,
}
