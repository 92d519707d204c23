"""What a gradio server says about h2oGPT's functions: how they are called, and which models it has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.remote.upstreams.choices import is_count
from inference.remote.upstreams.gradio.untrusted_literal import parse_literal
from inference.untrusted_json import TooDeep, parse_json

FUNCTION, MODELS_FUNCTION = "submit_nochat_api", "model_names"
PLAIN_FUNCTION = "submit_nochat_plain_api"  # the same, without a queue: its response is the whole answer
VERSION_3 = "3."  # streams in its queue alone
PREFIX = re.compile(r"(/[\w-]+)*")
MAX_DEPENDENCIES = 200_000  # and objects in them; h2oGPT has a few hundred functions


class GradioConfig(msgspec.Struct):
    """Gradio's /config."""

    dependencies: msgspec.Raw
    enable_queue: bool | None = None
    api_prefix: str | None = None
    version: str = ""


class Dependency(msgspec.Struct):
    """A function of the page. api_name: text, or false for one without a route; queue: None: as all are."""

    api_name: str | bool | None = None
    queue: bool | None = None
    inputs: msgspec.Raw = msgspec.Raw(b"[]")


# Made at import, which msgspec needs before several threads use them.
CONFIG_DECODER = msgspec.json.Decoder(GradioConfig)
DEPENDENCIES_DECODER = msgspec.json.Decoder(list[Dependency])
INPUTS_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class GradioFunctions:
    """How a server wants its functions called.

    prefix           of their routes: /gradio_api from gradio 5 on
    num_states       arguments before the function's own, which the server fills in where they are null
    has_model_names  it has MODELS_FUNCTION
    is_streamed      FUNCTION is called; else PLAIN_FUNCTION
    fn_index         number of FUNCTION in the queue of gradio 3; None: it has a route
    """

    prefix: str
    num_states: int
    has_model_names: bool
    is_streamed: bool = True
    fn_index: int | None = None

    @property
    def answer_path(self) -> str:
        """The path of a call whose result is a stream, or a whole answer."""
        return f"{self.prefix}/call/{FUNCTION}" if self.is_streamed else f"{self.prefix}/run/{PLAIN_FUNCTION}"

    @property
    def models_path(self) -> str:
        """The path of a call whose response is its result."""
        return f"{self.prefix}/run/{MODELS_FUNCTION}"


def read_functions(config: bytes) -> GradioFunctions | None:
    """By the document /config; None: h2oGPT's function is not there.

    Most of the document describes a page and is skipped: the values of a large one would take seconds and a
    GB. Raises ValueError for a document of another form.
    """
    try:
        page = CONFIG_DECODER.decode(config)
    except RecursionError:
        raise TooDeep from None
    if bytes(page.dependencies).count(b"{") > MAX_DEPENDENCIES:
        raise ValueError("too many functions")
    dependencies = DEPENDENCIES_DECODER.decode(page.dependencies)
    functions = {each.api_name: each for each in dependencies}
    prefix, has_queue_alone = page.api_prefix or "", page.version.startswith(VERSION_3)
    function = functions.get(FUNCTION)
    is_streamed = not has_queue_alone or bool(page.enable_queue and function and function.queue is not False)
    if not is_streamed:
        function = functions.get(PLAIN_FUNCTION)
    if function is None or not PREFIX.fullmatch(prefix):
        return None
    num_states = len(INPUTS_DECODER.decode(function.inputs)) - 1
    fn_index = dependencies.index(function) if has_queue_alone and is_streamed else None
    return GradioFunctions(prefix, num_states, MODELS_FUNCTION in functions, is_streamed, fn_index)


def read_models(result: Any) -> Mapping[str, int | None]:
    """The names of the models with their contexts, by the result of MODELS_FUNCTION; None: unknown.

    Raises KeyError, TypeError or AttributeError for a result of another form.
    """
    try:
        cards = read_cards(result["data"][0])
    except (ValueError, IndexError):
        return {}
    contexts = {str(card["display_name"]): card.get("max_seq_len") for card in cards}
    return {name: context if is_count(context) else None for name, context in contexts.items()}


def read_cards(text: str) -> Any:
    """The cards of the models, as JSON or as a Python literal. Raises ValueError."""
    try:
        return parse_json(text)
    except ValueError:
        return parse_literal(text)
