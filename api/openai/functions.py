"""Functions as they were told and called before there were tools: from here on they are tools.

The answer is worded in the fields that such a client reads. One call an answer, as it was then.
"""

from typing import Any, ClassVar

from msgspec import structs

from api.openai.bodies import ChatBody
from api.openai.chat import ChatWriter, whole
from api.openai.conversation import NamedFunction, NamedTool, ToolDef
from api.openai.errors import WrongBody
from api.said import Said


def as_tools(body: ChatBody) -> ChatBody:
    """The body with its functions as tools. Raises WrongBody where they do not go with the other fields."""
    if not body.functions:
        if body.function_call not in (None, "none", "auto"):
            raise WrongBody("When using `function_call`, `functions` must be set.", "function_call")
        return body
    if body.tools:
        raise WrongBody("functions and tools cannot both be set.", "functions")
    choice = body.function_call
    return structs.replace(
        body,
        tools=[ToolDef(function) for function in body.functions],
        tool_choice=NamedTool(choice) if isinstance(choice, NamedFunction) else choice,
        parallel_tool_calls=False,
    )


class FunctionWriter(ChatWriter):
    """A chat's answer to a client that told functions."""

    waits: ClassVar[str] = "function_call"

    def _calling(self, piece: dict[str, Any]) -> dict[str, Any]:
        return self._delta(content=None, function_call=piece["function"])

    def _calls(self, said: Said) -> dict[str, Any]:
        called = [whole(call)["function"] for call in said.calls.values()]
        return {"tool_calls": [], "function_call": called[0] if called else None}
