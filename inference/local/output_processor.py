"""Makes what turns the engine's outputs into text: a decoder for each answer to a request.

Knows the model's vocabulary, chat template, reasoning and tool calls. Does not know the engine.
"""

from collections.abc import Sequence

from inference.local.answer_decoder import AnswerDecoder
from inference.local.answer_parser import AnswerParser
from inference.local.backend_model import BackendModel
from inference.local.reasoning import ReasoningSeparation
from inference.local.resolve_request import ResolvedRequest
from inference.local.tool_calling import ToolCalling
from inference.metrics import AnswerStats
from inference.text.chat_template import ChatTemplate
from inference.text.detokenizer import make_detokenizer
from inference.text.stop_strings import StopStrings, TokenEndStops
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest


class OutputProcessor:
    """Processes the answers of one model."""

    def __init__(
        self,
        model: BackendModel,
        vocabulary: Vocabulary,
        chat_template: ChatTemplate,
        tool_calling: ToolCalling,
        reasoning_separation: ReasoningSeparation,
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._chat_template = chat_template
        self._tool_calling = tool_calling
        self._reasoning_separation = reasoning_separation

    def answer_decoders(
        self,
        resolved: ResolvedRequest,
        engine_requests: Sequence[GenerationRequest],
        answer_stats: Sequence[AnswerStats],
        *,
        has_grammar: bool,
    ) -> list[AnswerDecoder]:
        """The decoder of the answer to each of engine_requests, which differ in their seeds."""
        request = resolved.request
        starts_message = resolved.is_chat and not request.template.continue_final_message
        is_continued = not starts_message and not self._model.is_encoder_decoder
        stop_strings = stop_strings_for(request, self._chat_template.stops if resolved.is_chat else ())
        return [
            AnswerDecoder(
                index,
                engine_request,
                # A message starts a new text; a completion continues the text of its prompt.
                detokenizer=make_detokenizer(
                    self._vocabulary,
                    request.prompt_token_ids if is_continued else (),
                    show_special=request.show_special,
                    strip_leading=starts_message and bool(self._chat_template.fallback_reason),
                ),
                stop_matcher=stop_strings.new_matcher() if stop_strings else None,
                parser=self._answer_parser(resolved, index, has_grammar=has_grammar),
                eos_token_ids=self._model.eos_token_ids,
                answer_stats=stats,
            )
            for index, (engine_request, stats) in enumerate(zip(engine_requests, answer_stats, strict=True))
        ]

    def _answer_parser(
        self, resolved: ResolvedRequest, index: int, *, has_grammar: bool
    ) -> AnswerParser | None:
        """The parser of the answer `index`; None: all of it is text."""
        tool_parser = (
            self._tool_calling.parser_for(resolved.request, index) if resolved.request.tools else None
        )
        reasoning_parser = self._reasoning_separation.parser_for(
            resolved, has_tools=tool_parser is not None, has_grammar=has_grammar
        )
        if tool_parser is None and reasoning_parser is None:
            return None
        return AnswerParser(reasoning_parser, tool_parser)


def stop_strings_for(
    request: GenerationRequest, template_stops: tuple[str, ...]
) -> StopStrings | TokenEndStops | None:
    """The stop strings of a request; None if it has none. template_stops never appear in the text."""
    if not request.stop and not template_stops:
        return None
    if request.stop_at_token_end:
        return TokenEndStops(request.stop + template_stops)
    return (
        StopStrings(template_stops, request.stop)
        if request.include_stop_str_in_output
        else StopStrings(request.stop + template_stops)
    )
