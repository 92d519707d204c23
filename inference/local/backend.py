"""LocalBackend: requests to engine tasks, and a stream for what comes of them.

Knows what each floor below wants of a request. Computes nothing itself.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from inference.constrain import Compiler, Matcher
from inference.engine.engine import Engine, Post
from inference.engine.search import Seek
from inference.engine.sequence import Task
from inference.errors import NoRoom, NotImplementedHere
from inference.local.answer import Answer
from inference.local.calling import AUTO, Calling
from inference.local.contrast import contrasted
from inference.local.embed import Embed, EmbeddingStream, embedded
from inference.local.limits import check, check_ids
from inference.local.prompt import Prompts, is_chat
from inference.local.stream import Channel, LocalStream
from inference.metrics import Metrics, Span
from inference.model.gpus import devices
from inference.sampling import Sampling
from inference.text.badwords import runs_of
from inference.text.decode import Decoder
from inference.text.endings import Endings
from inference.text.stops import Stops
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Load, ModelInfo, Tokenized

COLDEST = 1e-5  # a temperature below it would overflow the logits, and picks the most probable token anyway
FAILING = 3  # requests that fail one after the other before the server counts as broken

Seeds = list[int | None]


class LocalBackend:
    """A Backend over an engine in this process.

    context   tokens that prompt and answer share; an answer that does not fit is cut to what does
    vocab     width of the logits; ids beyond the tokenizer's have no text
    ends      the model's own end tokens
    encodes   the model is an encoder-decoder: the prompt takes no room from the answer
    embed     computes embeddings; None: there are none
    seek      contrastive search; None: the model has none

    max_prompt   tokens that a prompt may have; None: as many as leave room for an answer
    tool_format  how calls are written, as Calling has it
    details      what else ModelInfo is to say of the model
    over         called when the engine has stopped
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Any,
        *,
        model_id: str,
        context: int,
        vocab: int,
        ends: frozenset[int],
        compiler: Compiler,
        metrics: Metrics,
        max_prompt: int | None = None,
        tool_format: str = AUTO,
        details: Mapping[str, str] = MappingProxyType({}),
        encodes: bool = False,
        embed: Embed | None = None,
        seek: Seek | None = None,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._embed = embed
        self._seek = seek
        self._over = over
        self._metrics = metrics
        self._vocabulary = Vocabulary(tokenizer)
        self._prompts = Prompts(
            self._vocabulary, context=context, vocab=vocab, encodes=encodes, most=max_prompt
        )
        self._ends = ends
        self._compiler = compiler
        self._calling = Calling(tool_format, self._prompts.chat, self._vocabulary)
        self._info = ModelInfo(
            model_id,
            context,
            vocab,
            int(time.time()),
            chat=self._prompts.chat.why,
            details={**details, "tool_format": self._calling.form},
        )

    def info(self) -> ModelInfo:
        return self._info

    def ready(self) -> str:
        if self._engine.failing >= FAILING:
            return f"the last {self._engine.failing} requests have failed"
        return self._engine.reason

    def generate(self, request: GenerationRequest) -> LocalStream:
        began = time.monotonic()
        check(request, self._info.vocab)
        request = replace(request, sampling=self._sampling(request))
        ids = self._prompts.ids(request)
        seeds = seeds_of(request.sampling, request.n)
        tasks = self._tasks(request, ids, seeds)
        spans = self._metrics.submitted(
            len(ids),
            max_tokens=tasks[0].max_tokens,
            answers=len(tasks),
            prepared_s=time.monotonic() - began,
        )
        answers = self._answers(request, ids, seeds, spans)
        if request.sampling.contrast:
            return LocalStream(contrasted(self._engine, self._seek, tasks[0], answers))
        channel = Channel(answers, self._engine.cancel)
        channel.ids = self._engine.submit(tasks, channel.outlets())
        return LocalStream(channel)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        return self._prompts.tokenized(request)

    def detokenize(self, ids: Sequence[int], special: bool = True) -> str:
        check_ids("tokens", ids, self._info.vocab)
        return self._vocabulary.detokenize(ids, special)

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> EmbeddingStream:
        if self._embed is None:
            raise NotImplementedHere("this model makes no embeddings")
        return embedded(self._engine, self._embed, self._prompts, inputs)

    def load(self) -> Load:
        stats = self._engine.stats()
        return Load(stats.running + stats.errands, stats.waiting, stats.held / stats.room, devices())

    def deliver_with(self, post: Post) -> None:
        self._engine.deliver_with(post)

    def close(self) -> None:
        self._engine.stop()
        self._over()

    def _sampling(self, request: GenerationRequest) -> Sampling:
        sampling = settled(request.sampling, self._info.vocab)
        if not request.bad_words:
            return sampling
        return replace(sampling, banned=sampling.banned + runs_of(request.bad_words, self._vocabulary))

    def _tasks(self, request: GenerationRequest, ids: tuple[int, ...], seeds: Seeds) -> list[Task]:
        matcher = self._matcher(request)
        ignored = request.ignore_eos and matcher is None  # else nothing could follow a text that is complete
        task = Task(
            ids,
            max_tokens=self._room(request, ids),
            sampling=request.sampling,
            min_tokens=request.min_tokens,
            ends=frozenset(request.stop_tokens) | (frozenset() if ignored else self._ends),
            logprobs=request.logprobs,
            warped=request.warped,
            prompt_logprobs=request.prompt_logprobs,
            deadline=None if request.deadline is None else time.monotonic() + request.deadline,
        )
        return [replace(task, seed=seed or 0, matcher=matcher and matcher.copy()) for seed in seeds]

    def _room(self, request: GenerationRequest, ids: tuple[int, ...]) -> int:
        room = self._info.context - (0 if self._prompts.encodes else len(ids))
        if request.max_tokens is None:
            return room
        if request.fits and request.max_tokens > room:
            raise NoRoom(self._info.context, len(ids), request.max_tokens)
        return min(request.max_tokens, room)

    def _matcher(self, request: GenerationRequest) -> Matcher | None:
        """A call that is demanded goes before any other form."""
        if demanded := self._calling.demanded(request):
            return self._compiler.compile(demanded, "tools")
        return self._compiler.compile(request.constraint) if request.constraint else None

    def _answers(
        self, request: GenerationRequest, ids: tuple[int, ...], seeds: Seeds, spans: list[Span]
    ) -> list[Answer]:
        chats = not isinstance(request.prompt, str) and is_chat(request.prompt)
        chat = self._prompts.chat
        begins = chats and not request.template.continues
        continued = () if begins or self._prompts.encodes else ids
        stops = stops_of(request, chat.stops if chats else ())
        return [
            Answer(
                index,
                request,
                ids,
                # A message begins a text of its own; a completion goes on with its prompt's.
                decoder=Decoder(self._vocabulary, continued, special=request.show_special),
                watch=stops.watch(),
                calls=self._calling.reader(request, index),
                ends=self._ends,
                seed=seed,
                span=span,
                bare=begins and bool(chat.why),
            )
            for index, (seed, span) in enumerate(zip(seeds, spans, strict=True))
        ]


def stops_of(request: GenerationRequest, plain: tuple[str, ...]) -> Stops | Endings:
    """What ends its answers; `plain` are the plain format's own, which nobody asked to see."""
    if request.stop_aligned:
        return Endings(request.stop + plain)
    return Stops(plain, request.stop) if request.keep_stop else Stops(request.stop + plain)


def settled(sampling: Sampling, vocab: int) -> Sampling:
    """The same choice in fewer ways: no temperature is greedy, as a search for unlike tokens is, and the top
    k of fewer tokens is no limit."""
    if sampling.contrast or sampling.temperature < COLDEST:
        return replace(sampling, greedy=True, temperature=1.0)
    return replace(sampling, top_k=0) if sampling.top_k >= vocab else sampling


def seeds_of(sampling: Sampling, n: int) -> Seeds:
    """One for each answer, each another; None where chance plays no part."""
    if sampling.greedy:
        return [None] * n
    first = secrets.randbits(63) if sampling.seed is None else sampling.seed
    return [first + index for index in range(n)]
