"""The reasoning of a model: its format, the parser that finds it in an answer, and where a grammar begins.

Knows requests and the prompt's end; does not know how a parser finds the markers.
"""

from inference.engine.sequence import Matcher
from inference.local.backend_model import BackendModel
from inference.local.resolve_request import ResolvedRequest
from inference.structured_output import MatcherAfterReasoning, ReasoningTokens
from inference.text.reasoning.formats import ReasoningFormat, detect_format
from inference.text.reasoning.stream import ReasoningParser
from inference.text.tool_parsers.formats import TAG_PARSERS, WRAPPERS
from inference.text.vocabulary import Vocabulary

NONE = "none"
MAX_MARKER_IDS = 32  # of a marker at the end of a prompt
# Starts of calls in characters, which models write without closing their reasoning; the tag alone is quoted.
CALL_OPENINGS = (
    "<tool_call><function=",
    "<tool_call>\n<function=",
    '<tool_call>{"name"',
    '<tool_call>\n{"name"',
)


class ReasoningSeparation:
    """Separates the reasoning of one model from its text.

    reasoning_format  "none": reasoning is part of the text; "auto": as the chat template marks it
    template          the source of the model's chat template
    """

    def __init__(
        self, reasoning_format: str, template: str, model: BackendModel, vocabulary: Vocabulary
    ) -> None:
        self._format = None if reasoning_format == NONE else detect_format(template)
        self._model = model
        self._vocabulary = vocabulary
        special_names = {vocabulary.text(id) for id in vocabulary.special_ids}
        markers = self._format.markers if self._format else ()
        call_tags = [tag for tag in (*WRAPPERS, *TAG_PARSERS) if tag in special_names]
        self._call_openings = (
            *CALL_OPENINGS,
            *(tag for tag in call_tags if not any(marker.startswith(tag) for marker in markers)),
        )
        self._tokens = marker_tokens(self._format, model) if self._format else None

    def parser_for(
        self, resolved: ResolvedRequest, *, has_tools: bool, has_grammar: bool
    ) -> ReasoningParser | None:
        """The parser of an answer; None: all of it is text, as where a grammar holds from its first token.

        Calls end reasoning only without a grammar, whose matcher waits for the end of the reasoning itself.
        """
        if self._format is None or not resolved.separates_reasoning:
            return None
        if has_grammar and self._tokens is None:
            return None
        call_openings = self._call_openings if has_tools and not has_grammar else ()
        if resolved.continued_text is not None:
            parser = ReasoningParser(self._format, call_openings=call_openings)
            parser.skip(resolved.continued_text)
            return parser
        section = self._format.section_open_at_end(self._prompt_end(resolved))
        return ReasoningParser(self._format, section, call_openings)

    def matcher_for(self, resolved: ResolvedRequest, matcher: Matcher) -> Matcher:
        """The matcher of an answer, whose grammar begins behind the reasoning where one token ends that."""
        parser = self.parser_for(resolved, has_tools=False, has_grammar=True)
        if parser is None or self._format is None or self._tokens is None:
            return matcher
        is_closed = self._format.is_closed_at_end(self._prompt_end(resolved))
        return MatcherAfterReasoning(
            matcher,
            self._tokens,
            vocab=self._model.vocab,
            eos_token_ids=self._model.eos_token_ids,
            in_reasoning=parser.in_reasoning,
            may_reason=not is_closed and resolved.continued_text is None,
        )

    def _prompt_end(self, resolved: ResolvedRequest) -> str:
        ids = resolved.request.prompt_token_ids[-MAX_MARKER_IDS:]
        return self._vocabulary.detokenize(ids, show_special=True)


def marker_tokens(reasoning_format: ReasoningFormat, model: BackendModel) -> ReasoningTokens | None:
    """The tokens that open and close reasoning; None: several tokens close it, or markers follow it.

    A marker may begin with the token that opens reasoning: <|channel> of <|channel>thought.
    """
    added_tokens = model.tokenizer.added_tokens_decoder.items()
    id_of = {str(token): id for id, token in added_tokens if id < model.vocab}
    sections = reasoning_format.sections
    end_ids = frozenset(id_of[end] for section in sections for end in section.ends if end in id_of)
    if not end_ids or not all(section.is_reasoning for section in sections):
        return None
    starts = tuple(start for section in sections for start in section.starts)
    start_ids = (id for name, id in id_of.items() if any(start.startswith(name) for start in starts))
    return ReasoningTokens(frozenset(start_ids), end_ids)
