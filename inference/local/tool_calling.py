"""Tool calls of a model: their format, the constraint that forces one, and the parser that finds them.

Knows requests and the names of the formats; knows neither their syntax nor how a constraint is compiled.
"""

from inference.local.input_processor import requested_format
from inference.structured_output import tool_constraint
from inference.text.chat_template import ChatTemplate
from inference.text.tool_parsers.formats import detect_format
from inference.text.tool_parsers.stream import ToolParser
from inference.text.vocabulary import Vocabulary
from inference.types import Constraint, GenerationRequest

AUTO = "auto"


class ToolCalling:
    """Tool calling for a model with this chat template.

    configured_format  the only format to parse; "auto": parse every format
    model_format       the format that the model was trained on: the configured one, or for "auto" the one
                       detected in the chat template
    """

    def __init__(self, configured_format: str, chat_template: ChatTemplate, vocabulary: Vocabulary) -> None:
        self.model_format = (
            detect_format(chat_template.source) if configured_format == AUTO else configured_format
        )
        self._configured_format = configured_format
        self._chat_template = chat_template
        self._special = {vocabulary.text(id): id for id in vocabulary.special_ids}

    def forced_constraint(self, request: GenerationRequest) -> Constraint:
        """The constraint for an answer that must be a tool call.

        The call has the model's own format if the chat template describes the tools. If the server describes
        them, the call is JSON (format "llama"). Raises BadRequest for a tool_choice that names no tool.
        """
        call_format = (
            self.model_format if self._chat_template.describes_tools(requested_format(request)) else "llama"
        )
        return tool_constraint(
            request.callable_tools,
            request.tool_choice,
            call_format,
            allow_several=request.parallel_calls,
            special_ids=self._special,
        )

    def parser_for(self, request: GenerationRequest, index: int) -> ToolParser | None:
        """The parser of the answer `index` to a request with tools; None if it allows no calls.

        Every format is parsed if the call is forced or the server describes the tools: its format may then
        differ from the configured one.
        """
        if request.tool_choice == "none" or not request.callable_tools:
            return None
        is_forced = request.tool_choice != "auto"
        is_free = not is_forced and self._chat_template.describes_tools(requested_format(request))
        call_format = self._configured_format if is_free else AUTO
        return ToolParser(
            request.callable_tools, index, call_format, parallel=request.parallel_calls, is_forced=is_forced
        )
