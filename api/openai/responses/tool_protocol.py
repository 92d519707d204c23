"""The JSON of the tools of /v1/responses, and of the choice among them. Types only, as in protocol.py."""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.chat import FunctionDefinition, NamedFunction


class CustomFormat(Struct, omit_defaults=True):
    """The format of a custom tool's input: text, or a grammar of the syntax regex or lark."""

    type: str
    syntax: str | None = None
    definition: str | None = None


class NamespacedTool(Struct):
    """A tool that the model may call.

    type        function, or custom: a tool that gets text
    parameters  of a function: a JSON schema of type object
    format      of a custom tool: the format of its input
    """

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    format: CustomFormat | None = None


class ResponsesTool(NamespacedTool):
    """A function, a custom tool, or a namespace of such tools. Tools of other types are ignored.

    tools     of a namespace: its functions and custom tools
    function  the function in the form of a chat completion, which transformers' own server takes too
    """

    tools: list[NamespacedTool] | None = None
    function: FunctionDefinition | None = None

    def __post_init__(self) -> None:
        if self.function and not self.name:
            self.name, self.description = self.function.name, self.function.description
            self.parameters, self.strict = self.function.parameters, self.function.strict


class ToolReference(Struct, omit_defaults=True):
    """A tool, by its name."""

    type: str
    name: str = ""
    namespace: str | None = None


class ResponsesToolChoice(ToolReference, omit_defaults=True):
    """The tool that the answer must call, or with type allowed_tools, the tools that it may call.

    mode      of allowed_tools: auto, or required: the answer must call one of them
    tools     of allowed_tools: the tools; those that the model cannot call are ignored
    function  the function in the form of a chat completion, as @ai-sdk/huggingface sends it
    """

    mode: Literal["auto", "required"] | None = None
    tools: list[ToolReference] | None = None
    function: NamedFunction | None = None

    def __post_init__(self) -> None:
        if self.function and not self.name:
            self.name, self.function = self.function.name, None
