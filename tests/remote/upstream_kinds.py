"""The kinds of upstreams for tests of what holds for all of them: how each is called, and its first event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference.backend import Backend
from inference.remote.upstreams.gradio.functions import GradioFunctions
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document, event
from tests.remote.openai_chunks import chat_chunk, text_chunk

FUNCTIONS = GradioFunctions("/gradio_api", num_states=0, has_model_names=True)
TGI_TOKEN = {"id": 5, "text": "a", "logprob": -0.5, "special": False}
OPENAI_ERROR = event({"error": {"message": "out of memory"}})


@dataclass(frozen=True, slots=True)
class UpstreamKind:
    """A kind of upstream.

    prefix       of its server in the settings
    first_event  as it sends it, with the text "a"
    error        as it reports one in an answer that has begun
    is_text      it is sent a text; else a conversation
    is_called    a POST gets the id of an answer, which a GET reads
    """

    prefix: str
    first_event: bytes
    error: bytes
    is_text: bool = False
    is_called: bool = False

    @property
    def num_requests(self) -> int:
        """HTTP requests that an answer takes."""
        return 1 + self.is_called

    @property
    def request(self) -> GenerationRequest:
        return GenerationRequest("The capital" if self.is_text else CHAT)

    def open(self, open_upstream: OpenModel, **keys: object) -> Backend:
        return open_upstream(self.prefix, functions=FUNCTIONS if self.is_called else None, **keys)

    def play(self, upstream: FakeUpstream, reply: Reply) -> None:
        """Let the upstream send the reply where an answer is read."""

        def choose(sent: Sent) -> Reply:
            return document({"event_id": "ab12"}) if self.is_called and sent.method == "POST" else reply

        upstream.reply = choose

    def attempts(self, upstream: FakeUpstream) -> Sequence[Sent]:
        """The requests of which each began an attempt at an answer."""
        return [sent for sent in upstream.sent if sent.method == "POST"]


KINDS: Mapping[str, UpstreamKind] = {
    "vllm_chat": UpstreamKind("vllm_chat", chat_chunk({"content": "a"}), OPENAI_ERROR),
    "vllm": UpstreamKind("vllm", text_chunk("a"), OPENAI_ERROR, is_text=True),
    "openai_chat": UpstreamKind("openai_chat:None", chat_chunk({"content": "a"}), OPENAI_ERROR),
    "hearth": UpstreamKind("hearth", chat_chunk({"content": "a"}), OPENAI_ERROR),
    "tgi": UpstreamKind(
        "tgi",
        event({"index": 1, "token": TGI_TOKEN, "generated_text": None, "details": None}),
        event({"error": "out of memory", "error_type": "generation"}),
        is_text=True,
    ),
    "tgi chat": UpstreamKind("tgi", chat_chunk({"content": "a"}), OPENAI_ERROR),
    "llamastack": UpstreamKind(
        "llamastack",
        event({"event": {"event_type": "progress", "delta": {"type": "text", "text": "a"}}}),
        event({"error": {"message": "out of memory"}}),
    ),
    "gradio": UpstreamKind(
        "gradio",
        b"event: generating\n" + event([str({"response": "a", "error": "", "save_dict": {}})]),
        b"event: error\ndata: null\n\n",
        is_called=True,
    ),
}
