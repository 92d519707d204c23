"""The reasoning of a model: its format, and the parser that separates it from the text of an answer.

Knows requests and the prompt's end; does not know how a parser finds the markers.
"""

from inference.local.resolve_request import ResolvedRequest
from inference.text.reasoning.formats import detect_format
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
    """Separates the reasoning of a model with this chat template.

    reasoning_format  "none": reasoning is part of the text; "auto": as the chat template marks it
    """

    def __init__(self, reasoning_format: str, template: str, vocabulary: Vocabulary) -> None:
        self._format = None if reasoning_format == NONE else detect_format(template)
        self._vocabulary = vocabulary
        special_names = {vocabulary.text(id) for id in vocabulary.special_ids}
        markers = self._format.markers if self._format else ()
        call_tags = [tag for tag in (*WRAPPERS, *TAG_PARSERS) if tag in special_names]
        self._call_openings = (
            *CALL_OPENINGS,
            *(tag for tag in call_tags if not any(marker.startswith(tag) for marker in markers)),
        )

    def parser_for(
        self, resolved: ResolvedRequest, *, has_tools: bool, has_grammar: bool
    ) -> ReasoningParser | None:
        """The parser of an answer; None: all of it is text. A grammar holds from the answer's first token."""
        if self._format is None or has_grammar or not resolved.separates_reasoning:
            return None
        call_openings = self._call_openings if has_tools else ()
        if resolved.continued_text is not None:
            parser = ReasoningParser(self._format, call_openings=call_openings)
            parser.skip(resolved.continued_text)
            return parser
        ids = resolved.request.prompt_token_ids[-MAX_MARKER_IDS:]
        ending = self._vocabulary.detokenize(ids, show_special=True)
        return ReasoningParser(self._format, self._format.section_open_at_end(ending), call_openings)
