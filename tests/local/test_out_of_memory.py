"""Memory refused wherever a request allocates: its dialect's error, and the next answer is as before."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from flask.testing import FlaskClient
from transformers import AutoModelForCausalLM, AutoTokenizer

from api import create_app
from inference.engine.engine import Engine
from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.sampling.sampler import Sampler
from inference.local import LocalBackend
from inference.local.answer_decoder import AnswerDecoder
from inference.local.input_processor import InputProcessor
from inference.model.contiguous.runner import ContiguousRunner
from inference.structured_output import GrammarCompiler
from inference.structured_output.compiler import GrammarMatcher
from inference.text.chat_template import ChatTemplate
from settings.groups import ServerSettings
from tests.fakes.fake_backend import make_models
from tests.local.running import running
from tests.tiny_models import tiny

GREEDY = {"max_tokens": 4, "temperature": 0}
COMPLETION = ("/v1/completions", {"prompt": "Once", **GREEDY})
SCORED = ("/v1/completions", {"prompt": "Once", "prompt_logprobs": 1, **GREEDY})
SCHEMA = ("/v1/completions", {"prompt": "Once", "guided_json": {"type": "object"}, **GREEDY})
NEW_SCHEMA = ("/v1/completions", {"prompt": "Once", "guided_json": {"type": "array"}, **GREEDY})
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = (
    "/inference/chat_completion",
    {"model": "tiny", "messages": MESSAGES, "sampling_params": {"max_tokens": 4}},
)
TGI = ("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 4}})
RESPONSE = ("/v1/responses", {"input": "hi", "max_output_tokens": 16, "temperature": 0})
EMBEDDING = ("/v1/embeddings", {"input": ["Once", "upon"]})
REFUSED, FAILED, REPEATED = 503, 500, 200  # a step without memory is repeated, its schedule is not


class Place(NamedTuple):
    """A method that allocates, a request that reaches it, and the status of the answer."""

    owner: type
    method: str
    request: tuple[str, dict[str, Any]]
    status: int = REFUSED


PLACES = {
    "the prompt's ids": Place(InputProcessor, "prompt_token_ids", TGI),
    "the chat template": Place(ChatTemplate, "render", CHAT),
    "the chat template of a response": Place(ChatTemplate, "render", RESPONSE),
    "the compiler of grammars": Place(GrammarCompiler, "compile", NEW_SCHEMA, FAILED),
    "a copy of a grammar": Place(GrammarMatcher, "copy", SCHEMA),
    "a mask of a grammar": Place(GrammarMatcher, "token_bitmask", SCHEMA, REPEATED),
    "a sequence": Place(Engine, "create_sequence", COMPLETION),
    "an embedding's sequence": Place(Engine, "create_sequence", EMBEDDING),
    "a step": Place(ContiguousRunner, "forward", COMPLETION, REPEATED),
    "a step of an embedding": Place(ContiguousRunner, "forward", EMBEDDING, REPEATED),
    "sampling": Place(Sampler, "sample_async", COMPLETION, REPEATED),
    "the cache ops of a step": Place(ContiguousKVCacheManager, "take_ops", COMPLETION, REPEATED),
    "the cache ops of an embedding": Place(ContiguousKVCacheManager, "take_ops", EMBEDDING, REPEATED),
    "a row": Place(ContiguousKVCacheManager, "allocate", COMPLETION, FAILED),
    "a row that grows": Place(ContiguousKVCacheManager, "grow", RESPONSE, FAILED),
    "a row of an embedding": Place(ContiguousKVCacheManager, "allocate", EMBEDDING, FAILED),
    "a row that is freed": Place(ContiguousKVCacheManager, "free", COMPLETION, REPEATED),
    "scores of a prompt": Place(Sampler, "prompt_logprobs", SCORED, REPEATED),
    "the text of an answer": Place(AnswerDecoder, "process", TGI),
}
CASES = [
    *((name, MemoryError()) for name in PLACES),
    ("a step", torch.OutOfMemoryError("CUDA out of memory")),
    ("a step", RuntimeError("std::bad_alloc")),
    ("the text of an answer", RuntimeError("std::bad_alloc")),
    ("the prompt's ids", RuntimeError("std::bad_alloc")),
]


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBackend]:
    folder = tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with running(model, AutoTokenizer.from_pretrained(folder), rows=4, context=128) as backend:
        yield backend


@pytest.fixture(scope="module")
def client(backend: LocalBackend) -> FlaskClient:
    """Its app has compiled the grammar of SCHEMA: later requests copy it in their own thread."""
    client = create_app(make_models(backend), ServerSettings()).test_client()
    assert client.post(SCHEMA[0], json=SCHEMA[1]).status_code == 200
    return client


def failing_once(method: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    errors = [error]

    def run(*args: Any, **options: Any) -> Any:
        if errors:
            raise errors.pop()
        return method(*args, **options)

    return run


@pytest.mark.parametrize(("name", "error"), CASES)
def test_a_request_without_memory_harms_no_other(
    name: str, error: Exception, client: FlaskClient, backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, method, (path, body), status = PLACES[name]
    before = client.post(COMPLETION[0], json=COMPLETION[1]).json["choices"]
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, failing_once(getattr(owner, method), error))
        reply = client.post(path, json=body)
    assert (reply.status_code, reply.mimetype) == (status, "application/json"), reply.text
    assert status == REPEATED or reply.json["error"]
    assert client.post(COMPLETION[0], json=COMPLETION[1]).json["choices"] == before
    assert client.post(path, json=body).status_code == 200
    assert not backend.unavailable_reason()
