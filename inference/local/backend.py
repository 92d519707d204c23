"""LocalBackend: resolves a request for the engine, and turns its outputs into a stream of events.

Knows which module handles which part of a request. Computes nothing itself.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from inference.backend import Adapters, Stream
from inference.backend_info import BackendLoad, ModelInfo
from inference.engine.engine import Engine
from inference.engine.sequence import Matcher
from inference.engine.step_output import OutputSink
from inference.errors import NotFound, NotImplementedHere, TooLong
from inference.local.answer_decoder import AnswerDecoder
from inference.local.backend_model import BackendModel
from inference.local.embedding_inputs import EmbeddingInputs
from inference.local.embeddings import EmbeddingStream, embed_inputs
from inference.local.engine_probe import EngineProbe
from inference.local.grammar_stage import GrammarStage
from inference.local.input_processor import InputProcessor
from inference.local.output_processor import OutputProcessor
from inference.local.output_stream import LocalStream, OutputCollector
from inference.local.reasoning import ReasoningSeparation
from inference.local.resolve_request import RequestResolver, ResolvedRequest
from inference.local.tool_calling import ToolCalling
from inference.lora.registry import AdapterRegistry
from inference.metrics import ModelMetrics
from inference.model.memory_usage import devices
from inference.structured_output import GrammarCompiler, GrammarMatcher
from inference.text.tokenizer_config import tokenizer_config
from inference.text.vocabulary import Vocabulary
from inference.tokenized import Tokenized
from inference.types import Constraint, GenerationRequest
from inference.validation import MAX_DETOKENIZE_IDS, check_ids, check_request, limit_answers
from settings.groups import BackendSettings

# Starts a contrastive search whose outputs go to every sink; returns what aborts answers by their indices.
StartSearch = Callable[
    [GenerationRequest, Matcher | None, Sequence[OutputSink]], Callable[[Iterable[int]], None]
]
WatchSinks = Callable[[Sequence[OutputSink]], Sequence[OutputSink]]


class LocalBackend:
    """A Backend over an engine in this process.

    contrastive  starts a contrastive search; None: the model does not support it
    adapters     the adapters that requests may name; None: none can be loaded
    on_close     called after the engine has stopped
    """

    def __init__(
        self,
        engine: Engine,
        model: BackendModel,
        settings: BackendSettings,
        *,
        compiler: GrammarCompiler,
        metrics: ModelMetrics,
        contrastive: StartSearch | None = None,
        adapters: AdapterRegistry | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._model = model
        self._settings = settings
        self._adapters = adapters
        self._contrastive = contrastive
        self._on_close = on_close
        self._metrics = metrics
        self._vocabulary = Vocabulary(model.tokenizer)
        self._input_processor = InputProcessor(
            self._vocabulary,
            context=model.context,
            vocab=model.vocab,
            is_encoder_decoder=model.is_encoder_decoder,
            max_input_tokens=settings.max_input_tokens,
            special_tokens_in=settings.special_tokens_in,
        )
        self._embedding_inputs = EmbeddingInputs(self._input_processor, model.embedding_method)
        self._engine_probe = EngineProbe(engine, token_id=next(iter(self._vocabulary.anchor_ids), 0))
        self._grammar_stage = GrammarStage(compiler)
        chat_template = self._input_processor.chat_template
        self._tool_calling = ToolCalling(settings.tool_format, chat_template, self._vocabulary)
        self._request_resolver = RequestResolver(model, self._vocabulary)
        self._reasoning_separation = ReasoningSeparation(
            settings.reasoning_format, chat_template.source, model, self._vocabulary
        )
        self._output_processor = OutputProcessor(
            model, self._vocabulary, chat_template, self._tool_calling, self._reasoning_separation
        )
        self._info = ModelInfo(
            model.id,
            model.context,
            model.vocab,
            int(time.time()),
            chat_fallback_reason=chat_template.fallback_reason,
            details={**model.details, "tool_format": self._tool_calling.model_format},
            embedding_sizes=model.embedding_sizes,
        )

    def info(self) -> ModelInfo:
        return self._info

    def unavailable_reason(self) -> str:
        return self._engine.closed_reason or self._engine_probe.unavailable_reason()

    def generate(self, request: GenerationRequest) -> Stream:
        arrived_s = time.monotonic()
        check_request(request, self._model.vocab)
        request = limit_answers(request, self._settings.max_answer_tokens)
        if request.adapter is not None:
            self._check_adapter(request.adapter)
        token_ids = self._input_processor.prompt_token_ids(request)
        constraint, field = self._constraint(request)
        resolved = self._request_resolver.resolve(
            request, token_ids, has_grammar=constraint is not None, arrived_s=arrived_s
        )
        return self._grammar_stage.compile_then(constraint, field, partial(self._submit, resolved))

    def _submit(self, resolved: ResolvedRequest, matcher: GrammarMatcher | None) -> Stream:
        """Start the answers. The weights of their adapter stay in memory until they end."""
        request = resolved.request
        if request.adapter is None or self._adapters is None:
            return self._start(resolved, matcher)
        lease = self._adapters.lease(request.adapter, request.n)
        try:
            return self._start(resolved.with_adapter_number(lease.number), matcher, lease.watch)
        except BaseException:
            lease.cancel()
            raise

    def _start(
        self, resolved: ResolvedRequest, matcher: GrammarMatcher | None, watch: WatchSinks = tuple
    ) -> Stream:
        request, engine_requests = resolved.request, resolved.with_seeds(self._settings.default_seed)
        answer_stats = self._metrics.start_answers(
            len(request.prompt_token_ids),
            max_tokens=request.max_tokens or 0,
            num_answers=len(engine_requests),
            prepared_s=resolved.prepared_s,
        )
        answer_decoders = self._output_processor.answer_decoders(
            resolved, engine_requests, answer_stats, has_grammar=matcher is not None
        )
        matchers = self._matchers(resolved, matcher, len(engine_requests))
        if request.sampling.penalty_alpha:
            first = matchers[0] if matchers else None
            return LocalStream(self._start_search(request, first, answer_decoders, watch))
        collector = OutputCollector(answer_decoders, self._engine.abort)
        sinks = watch(collector.sinks())
        collector.sequence_ids = self._engine.submit(engine_requests, sinks, matchers)
        return LocalStream(collector)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        return self._input_processor.tokenize(request)

    def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        return self._input_processor.encode_texts(texts, add_special_tokens=False)

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        if len(token_ids) > (max_ids := max(self._model.context, MAX_DETOKENIZE_IDS)):
            raise TooLong("tokens", max_ids, len(token_ids), f"may have at most {max_ids} ids")
        check_ids("tokens", token_ids, self._model.vocab)
        return self._vocabulary.detokenize(token_ids, show_special)

    def tokenizer_config(self) -> Mapping[str, Any]:
        tokenizer, chat_template = self._vocabulary.tokenizer, self._input_processor.chat_template
        return tokenizer_config(tokenizer, chat_template.template or tokenizer.chat_template)

    def embed(self, inputs: Sequence[str | Sequence[int]], *, in_background: bool = False) -> EmbeddingStream:
        return embed_inputs(self._engine, self._embedding_inputs, inputs, in_background)

    def adapters(self) -> Adapters | None:
        return self._adapters

    def current_load(self) -> BackendLoad:
        stats = self._engine.stats()
        return BackendLoad(
            stats.running + stats.background_tasks,
            stats.waiting,
            stats.kv_used / stats.kv_capacity,
            devices(),
        )

    def seconds_until_end(self) -> float | None:
        return self._engine.seconds_until_end()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._grammar_stage.post = loop.call_soon_threadsafe
        self._engine.set_delivery(loop.call_soon_threadsafe)

    def close(self) -> None:
        self._engine.stop()
        self._on_close()

    def _check_adapter(self, name: str) -> None:
        if self._adapters is None or not self._adapters.has(name):
            raise NotFound(f"adapter {name!r} not found")

    def _constraint(self, request: GenerationRequest) -> tuple[Constraint | None, str]:
        """(the answers' constraint, its field in errors). A forced tool call overrides the request's."""
        if request.tool_choice not in ("auto", "none"):
            return self._tool_calling.forced_constraint(request), "tools"
        return request.constraint, ""

    def _matchers(
        self, resolved: ResolvedRequest, matcher: GrammarMatcher | None, num_answers: int
    ) -> list[Matcher]:
        """The matcher of each answer; empty: they have no grammar."""
        if matcher is None:
            return []
        separation = self._reasoning_separation
        return [separation.matcher_for(resolved, matcher.copy()) for _ in range(num_answers)]

    def _start_search(
        self,
        request: GenerationRequest,
        matcher: Matcher | None,
        answer_decoders: list[AnswerDecoder],
        watch: WatchSinks,
    ) -> OutputCollector:
        """Start a contrastive search. All answers are equal; their sequence ids are their indices."""
        if self._contrastive is None:
            raise NotImplementedHere(
                "this model does not support penalty_alpha: its KV memory cannot be copied"
            )
        collector = OutputCollector(answer_decoders, lambda indices: abort(indices))
        collector.sequence_ids = range(len(answer_decoders))
        abort = self._contrastive(request, matcher, watch(collector.sinks()))
        return collector
