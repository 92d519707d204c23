"""An entry of MODELS for a model on other servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from settings.inference_server import InferenceServer

MAX_CONCURRENT = 64


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, to the first event of an answer, without a byte after it, and to say what it is.

    of_entry  the names of those that the entry sets; for the others settings may count
    """

    connect: float = 5.0
    first: float = 120.0
    silence: float = 60.0
    probe: float = 5.0
    of_entry: frozenset[str] = field(default=frozenset(), compare=False)

    def with_defaults(self, **seconds: float) -> "Timeouts":
        changes: dict[str, Any] = {name: each for name, each in seconds.items() if name not in self.of_entry}
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model that a server answers for.

    name               the name that requests use
    upstream_name      the name that the server knows
    others             further servers that answer for the model
    socket             path of a Unix socket to connect to in place of the server's host; empty: none
    aliases            further names that requests may use
    takes_listed_name  the server's own name for its only model replaces upstream_name
    context            tokens of prompt and answer together; None: the server's own
    prompt_type        h2oGPT's name or number of how a conversation becomes text; empty: it stays messages
    prompt_dict        the texts of the prompt type custom, by h2oGPT's names; empty: it is another type
    tokenizer_folder   files of its tokenizer on this machine; empty: none
    chat_template      of that tokenizer in place of its own; empty: its own
    max_answer_tokens  requests for more get so many; None: no limit of its own
    max_tokens         of an answer to a request without a limit, where the server's own default is too low
    drop               fields that are left out if the server does not support them, rather than refused
    extra              fields that are added to every body
    max_concurrent     requests that run at the server at the same time; further ones get status 429
    fallbacks          names of models on other servers that answer while no server of this one does
    context_fallbacks  those that answer if the prompt is too long for this one
    must_connect       a server that does not respond at the start refuses it
    """

    name: str
    upstream_name: str
    server: InferenceServer
    others: tuple[InferenceServer, ...] = ()
    socket: str = ""
    aliases: tuple[str, ...] = ()
    takes_listed_name: bool = False
    context: int | None = None
    max_answer_tokens: int | None = None
    max_tokens: int | None = None
    prompt_type: str = ""
    prompt_dict: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_folder: str = ""
    chat_template: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    drop: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)
    max_concurrent: int = MAX_CONCURRENT
    timeouts: Timeouts = Timeouts()
    ca: str = ""
    proxy: str = ""
    fallbacks: tuple[str, ...] = ()
    context_fallbacks: tuple[str, ...] = ()
    must_connect: bool = False

    @property
    def is_own(self) -> bool:
        """Whether a process answers that this server has started."""
        return self.server.kind == "link"

    def with_defaults(self, *, max_answer_tokens: int, **seconds: float) -> "RemoteModel":
        """The model with what settings say of all models; an entry's own limits of time count more."""
        timeouts = self.timeouts.with_defaults(**seconds)
        return replace(self, max_answer_tokens=max_answer_tokens or None, timeouts=timeouts)

    @property
    def at_each_server(self) -> tuple["RemoteModel", ...]:
        """The model at each of its servers alone."""
        return tuple(replace(self, server=server, others=()) for server in (self.server, *self.others))
