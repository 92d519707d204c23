"""h2oGPT's servers, by the functions of gradio that its own client calls: one answer a request.

A call is posted, and the id of its event names the stream of the answer. Each event has the whole text of the
answer so far. gradio 3 has a queue in its place; without one, the response to the call is the whole answer.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from inference.errors import BadRequest, NotImplementedHere
from inference.events import Embedding
from inference.remote.failures import broken
from inference.remote.upstreams.answer_stops import stop_strings
from inference.remote.upstreams.gradio.functions import GradioFunctions
from inference.remote.upstreams.gradio.queue import QUEUE_PATH, GradioQueueReader, QueueCall
from inference.remote.upstreams.gradio.reader import GradioReader
from inference.remote.upstreams.openai import is_conversation
from inference.remote.upstreams.options import keep_supported
from inference.remote.upstreams.prompt_types import system_and_texts
from inference.remote.upstreams.upstream_api import UpstreamCall
from inference.sampling import Sampling
from inference.types import GenerationRequest
from inference.untrusted_json import decode_json
from settings.remote_model import RemoteModel

DEFAULT_MAX_TOKENS = 1024  # h2oGPT's
MAX_TOP_K = 100  # h2oGPT's; it stands for none too
PLAIN = "plain"  # the prompt type of a text that h2oGPT leaves as it is
OPTIONS = frozenset({"top_p", "top_k", "repetition_penalty", "seed", "include_stop_str_in_output"})


class GradioApi:
    """An UpstreamApi of h2oGPT behind gradio.

    upstream_name  h2oGPT's name of the model; empty: its first one
    """

    can_resume = ends_at_deadline = False

    def __init__(self, model: RemoteModel, upstream_name: str, functions: GradioFunctions) -> None:
        self._model = model
        self._upstream_name = upstream_name
        self._functions = functions
        self._server = f"the h2oGPT server behind {model.name}"

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        """One call for each answer."""
        request = keep_supported(request, OPTIONS, self._model.drop, self._server)
        prompt = self._prompt(request)
        return [self._call(request, prompt, index) for index in range(request.n)]

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        return False

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        raise NotImplementedHere(f"{self._server} makes no embeddings")

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        raise NotImplementedHere(f"{self._server} makes no embeddings")

    def _call(self, request: GenerationRequest, prompt: Mapping[str, Any], index: int) -> UpstreamCall:
        max_tokens = request.max_tokens or self._model.max_tokens or DEFAULT_MAX_TOKENS
        arguments = {
            **prompt,
            **self._sampling(request.sampling, index),
            "max_new_tokens": max_tokens,
            "stream_output": self._functions.is_streamed,
            "num_return_sequences": 1,
            "chat": False,
            "langchain_mode": "LLM",
            "h2ogpt_key": self._key(),
            **({"visible_models": self._upstream_name} if self._upstream_name else {}),
            **({} if request.deadline is None else {"max_time": request.deadline}),
            **self._model.extra,
        }
        data = [*[None] * self._functions.num_states, repr(arguments)]
        reader_of = (self._model.name, index, stop_strings(request), max_tokens)
        if self._functions.fn_index is not None:
            reply = QueueCall(self._functions.fn_index, data).reply
            return UpstreamCall(QUEUE_PATH, b"", partial(GradioQueueReader, *reader_of), reply=reply)
        path, body = self._functions.answer_path, {"data": data}
        make_reader = partial(GradioReader, *reader_of)
        stream_path = partial(self._stream_path, path) if self._functions.is_streamed else None
        return UpstreamCall(path, msgspec.json.encode(body), make_reader, stream_path)

    def _stream_path(self, path: str, body: bytes) -> str:
        """The path of the answer's events, whose id is the response to the call. Raises UpstreamFailure."""
        try:
            event_id = decode_json(body)["event_id"]
        except (ValueError, KeyError, TypeError):
            raise broken(self._model.name, "the call has no event_id") from None
        if not (isinstance(event_id, str) and event_id.isalnum()):
            raise broken(self._model.name, "the event_id has the wrong form")
        return f"{path}/{event_id}"

    def _prompt(self, request: GenerationRequest) -> dict[str, Any]:
        """The arguments that hold the prompt. Raises BadRequest for one that h2oGPT has no place for."""
        if is_conversation(request.prompt):
            system, texts = system_and_texts(request, self._server)
            turns = list(zip(texts[:-1:2], texts[1::2], strict=True))
            return {
                "instruction_nochat": texts[-1],
                "chat_conversation": turns,
                "system_prompt": system,
                "prompt_type": self._model.prompt_type,
            }
        if not isinstance(request.prompt, str):
            raise BadRequest("prompt", f"of token ids is not supported by {self._server}: send text")
        return {
            "instruction_nochat": request.prompt,
            "chat_conversation": [],
            "system_prompt": "",
            "prompt_type": PLAIN,
        }

    def _sampling(self, sampling: Sampling, index: int) -> dict[str, Any]:
        """The arguments of sampling. Raises BadRequest for values that h2oGPT does not have."""
        if sampling.top_k > MAX_TOP_K:
            raise BadRequest("top_k", f"may be at most {MAX_TOP_K} for {self._server}", sampling.top_k)
        if sampling.seed == 0:
            raise BadRequest("seed", f"must not be 0 for {self._server}, where it means any seed", 0)
        common = {
            "repetition_penalty": sampling.repetition_penalty,
            "seed": 0 if sampling.seed is None else sampling.seed + index,
        }
        if sampling.greedy:
            return common | {"do_sample": False, "temperature": 0.0, "top_p": 1.0, "top_k": 1}
        shares = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        return common | shares | {"do_sample": True, "top_k": sampling.top_k or MAX_TOP_K}

    def _key(self) -> str:
        """The entry's key, which h2oGPT takes as an argument. A login is none."""
        scheme, _, key = self._model.server.headers.get("Authorization", "").partition(" ")
        return key if scheme == "Bearer" else ""
