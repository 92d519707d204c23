"""LocalBackend: resolves a request for the engine, and turns its outputs into a stream of events.

Knows which module handles which part of a request. Computes nothing itself.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from inference.backend import Adapters, Stream
from inference.backend_load import BackendLoad
from inference.engine.engine import Engine
from inference.engine.sequence import OutputSink
from inference.errors import MaxTokensTooLarge, NotFound, NotImplementedHere, TooLong
from inference.local.answer_decoder import AnswerDecoder, stop_strings_for
from inference.local.backend_model import BackendModel
from inference.local.embedding_inputs import EmbeddingInputs
from inference.local.embeddings import EmbeddingStream, embed_inputs
from inference.local.engine_probe import EngineProbe
from inference.local.input_processor import InputProcessor, is_chat
from inference.local.output_stream import LocalStream, OutputCollector
from inference.local.pending_stream import GrammarStage
from inference.local.resolve_sampling import normalise_sampling, with_seeds
from inference.local.tool_calling import ToolCalling
from inference.lora.registry import AdapterRegistry
from inference.metrics import AnswerStats, ModelMetrics
from inference.model.memory_usage import devices
from inference.structured_output import GrammarCompiler, GrammarMatcher
from inference.text.detokenizer import make_detokenizer
from inference.text.tokenizer import bad_words_ids
from inference.text.tokenizer_config import tokenizer_config
from inference.text.vocabulary import Vocabulary
from inference.tokenized import Tokenized
from inference.types import Constraint, GenerationRequest, ModelInfo
from inference.validation import check_ids, check_request, limit_answers
from settings.groups import BackendSettings

MAX_DETOKENIZE_IDS = 100_000  # limit of `detokenize` if the context is small

# Starts a contrastive search whose outputs go to every sink; returns what aborts answers by their indices.
StartSearch = Callable[
    [GenerationRequest, GrammarMatcher | None, Sequence[OutputSink]], Callable[[Iterable[int]], None]
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
        self._embedding_inputs = EmbeddingInputs(self._input_processor)
        self._engine_probe = EngineProbe(engine, token_id=next(iter(self._vocabulary.anchor_ids), 0))
        self._grammar_stage = GrammarStage(compiler)
        chat_template = self._input_processor.chat_template
        self._tool_calling = ToolCalling(settings.tool_format, chat_template, self._vocabulary)
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
        start_s = time.monotonic()
        check_request(request, self._model.vocab)
        request = limit_answers(request, self._settings.max_answer_tokens)
        if request.adapter is not None:
            self._check_adapter(request)
        token_ids = self._input_processor.prompt_token_ids(request)
        constraint, field = self._constraint(request)
        resolved = self._resolve(request, token_ids, has_grammar=constraint is not None)
        return self._grammar_stage.open(constraint, field, partial(self._submit, request, resolved, start_s))

    def _submit(
        self,
        request: GenerationRequest,
        resolved: GenerationRequest,
        start_s: float,
        matcher: GrammarMatcher | None,
    ) -> Stream:
        """Start the answers; `resolved` is what _resolve returns. Their adapter stays until they end."""
        if request.adapter is None or self._adapters is None:
            return self._start(request, resolved, start_s, matcher)
        lease = self._adapters.lease(request.adapter, request.n)
        try:
            resolved = replace(resolved, adapter_number=lease.number)
            return self._start(request, resolved, start_s, matcher, lease.watch)
        except BaseException:
            lease.cancel()
            raise

    def _start(
        self,
        request: GenerationRequest,
        resolved: GenerationRequest,
        start_s: float,
        matcher: GrammarMatcher | None,
        watch: WatchSinks = tuple,
    ) -> Stream:
        resolved_requests = with_seeds(resolved, self._settings.default_seed)
        answer_stats = self._metrics.start_answers(
            len(resolved.prompt_token_ids),
            max_tokens=resolved.max_tokens or 0,
            num_answers=len(resolved_requests),
            prepared_s=time.monotonic() - start_s,
        )
        answer_decoders = self._answer_decoders(request, resolved_requests, answer_stats)
        if resolved.sampling.penalty_alpha:
            return LocalStream(self._start_search(resolved, matcher, answer_decoders, watch))
        collector = OutputCollector(answer_decoders, self._engine.abort)
        matchers = [matcher.copy() for _ in resolved_requests] if matcher else ()
        sinks = watch(collector.sinks())
        collector.sequence_ids = self._engine.submit(resolved_requests, sinks, matchers)
        return LocalStream(collector)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        return self._input_processor.tokenize(request)

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        if len(token_ids) > (max_ids := max(self._model.context, MAX_DETOKENIZE_IDS)):
            raise TooLong("tokens", max_ids, len(token_ids), f"may have at most {max_ids} ids")
        check_ids("tokens", token_ids, self._model.vocab)
        return self._vocabulary.detokenize(token_ids, show_special)

    def tokenizer_config(self) -> Mapping[str, Any]:
        tokenizer, chat_template = self._vocabulary.tokenizer, self._input_processor.chat_template
        return tokenizer_config(tokenizer, chat_template.template or tokenizer.chat_template)

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> EmbeddingStream:
        return embed_inputs(self._engine, self._embedding_inputs, inputs)

    def adapters(self) -> Adapters | None:
        return self._adapters

    def load(self) -> BackendLoad:
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

    def _resolve(
        self, request: GenerationRequest, token_ids: tuple[int, ...], has_grammar: bool
    ) -> GenerationRequest:
        """The request as the engine needs it (see Sequence.request), except for the seed."""
        sampling = normalise_sampling(request.sampling, self._model.vocab)
        if request.bad_words:
            banned_runs = bad_words_ids(request.bad_words, self._vocabulary)
            sampling = replace(sampling, bad_words_ids=sampling.bad_words_ids + banned_runs)
        # Behind a complete structured output only end tokens are allowed, so they must end the answer.
        ignores_eos = request.ignore_eos and not has_grammar
        return replace(
            request,
            prompt=token_ids,
            sampling=sampling,
            max_tokens=self._max_output_tokens(request, token_ids),
            stop_token_ids=request.stop_token_ids + (() if ignores_eos else tuple(self._model.eos_token_ids)),
        )

    def _check_adapter(self, request: GenerationRequest) -> None:
        if self._adapters is None or not self._adapters.has(str(request.adapter)):
            raise NotFound(f"adapter {request.adapter!r} not found")

    def _max_output_tokens(self, request: GenerationRequest, token_ids: tuple[int, ...]) -> int:
        available = self._model.context - (0 if self._model.is_encoder_decoder else len(token_ids))
        if request.max_tokens is None:
            return available
        if request.reject_if_too_long and request.max_tokens > available:
            raise MaxTokensTooLarge(self._model.context, len(token_ids), request.max_tokens)
        return min(request.max_tokens, available)

    def _constraint(self, request: GenerationRequest) -> tuple[Constraint | None, str]:
        """(the answers' constraint, its field in errors). A forced tool call overrides the request's."""
        if request.tool_choice not in ("auto", "none"):
            return self._tool_calling.forced_constraint(request), "tools"
        return request.constraint, ""

    def _start_search(
        self,
        request: GenerationRequest,
        matcher: GrammarMatcher | None,
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

    def _answer_decoders(
        self,
        request: GenerationRequest,
        resolved_requests: list[GenerationRequest],
        answer_stats: list[AnswerStats],
    ) -> list[AnswerDecoder]:
        """The decoder of the answer to each of resolved_requests."""
        is_chat_prompt = not isinstance(request.prompt, str) and is_chat(request.prompt)
        chat_template = self._input_processor.chat_template
        starts_message = is_chat_prompt and not request.template.continue_final_message
        is_continued = not starts_message and not self._model.is_encoder_decoder
        stop_strings = stop_strings_for(request, chat_template.stops if is_chat_prompt else ())
        return [
            AnswerDecoder(
                index,
                resolved,
                # A message starts a new text; a completion continues the text of its prompt.
                detokenizer=make_detokenizer(
                    self._vocabulary,
                    resolved.prompt_token_ids if is_continued else (),
                    show_special=request.show_special,
                    strip_leading=starts_message and bool(chat_template.fallback_reason),
                ),
                stop_matcher=stop_strings.new_matcher() if stop_strings else None,
                tool_parser=self._tool_calling.parser_for(request, index) if request.tools else None,
                eos_token_ids=self._model.eos_token_ids,
                answer_stats=stats,
            )
            for index, (resolved, stats) in enumerate(zip(resolved_requests, answer_stats, strict=True))
        ]
