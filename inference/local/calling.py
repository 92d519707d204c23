"""Calls of tools in a model's answers: the format they come in, how they are demanded and how they are read.

Knows requests and the formats by name; neither the rules of a format nor how a constraint is compiled.
"""

from inference.constrain import tool_constraint
from inference.local.prompt import asked_format
from inference.text.calls import format_of
from inference.text.chat import Chat
from inference.text.toolcalls import ToolCalls
from inference.text.vocabulary import Vocabulary
from inference.types import Constraint, GenerationRequest

AUTO = "auto"


class Calling:
    """For a model with this chat template.

    setting  a format, the only one to be read then; "auto": as the template has it, and any is read
    form     the format that the model was taught
    """

    def __init__(self, setting: str, chat: Chat, vocabulary: Vocabulary) -> None:
        self.form = format_of(chat.source) if setting == AUTO else setting
        self._setting = setting
        self._chat = chat
        self._special = {vocabulary.text(id): id for id in vocabulary.special}

    def demanded(self, request: GenerationRequest) -> Constraint | None:
        """What an answer must look like that is to be a call; None where it may be anything.

        In the model's own format, unless the tools were described in words of ours: these ask for JSON.
        """
        form = self.form if self._chat.describes(asked_format(request)) else "llama"
        return tool_constraint(
            request.tools,
            request.tool_choice,
            form,
            several=request.parallel_calls,
            special=self._special,
        )

    def reader(self, request: GenerationRequest, index: int) -> ToolCalls | None:
        """What finds the calls in the answer `index`; None where none is to be found.

        A format of ours, or a call that is demanded, may be another than the one that is set.
        """
        if not request.tools or request.tool_choice == "none":
            return None
        free = request.tool_choice == "auto" and self._chat.describes(asked_format(request))
        form = self._setting if free else AUTO
        return ToolCalls(request.tools, index, form, parallel=request.parallel_calls)
