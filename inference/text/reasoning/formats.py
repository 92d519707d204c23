"""The formats in which models write their reasoning: the markers around it, by a text of the chat template.

Knows no models and no requests; stream.py reads an answer in a format.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class AnswerSection:
    """A part of an answer between two markers: reasoning, or an answer's text in a wrapper of its own.

    starts  markers before the part, each of which may begin with special tokens
    ends    markers behind it
    """

    starts: tuple[str, ...]
    ends: tuple[str, ...]
    is_reasoning: bool = True


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """How a model marks its reasoning.

    template_texts  texts one of which the chat template has
    sections        parts of an answer; what is between them is text
    separators      markers between sections that are left out
    wrappers        further sections, which a model may leave out
    """

    template_texts: tuple[str, ...]
    sections: tuple[AnswerSection, ...]
    separators: tuple[str, ...] = ()
    wrappers: tuple[AnswerSection, ...] = ()

    @property
    def all_sections(self) -> tuple[AnswerSection, ...]:
        return (*self.sections, *self.wrappers)

    @property
    def markers(self) -> tuple[str, ...]:
        """All markers: starts of sections, separators, ends of sections."""
        return (*self.starts, *(end for section in self.all_sections for end in section.ends))

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that may stand between sections: starts of sections, and separators."""
        return (*(start for section in self.all_sections for start in section.starts), *self.separators)

    def section_open_at_end(self, prompt: str) -> AnswerSection | None:
        """The section that the end of a prompt has opened, as <think> does there; None: there is none."""
        ending = prompt.rstrip()
        return next((section for section in self.all_sections if ending.endswith(section.starts)), None)

    def is_closed_at_end(self, prompt: str) -> bool:
        """Whether the end of a prompt has closed the reasoning: the answer shall have none."""
        return prompt.rstrip().endswith(tuple(end for section in self.sections for end in section.ends))


def marked(start: str, end: str) -> ReasoningFormat:
    """Reasoning between two markers, both of which the chat template may have."""
    return ReasoningFormat((start, end), (AnswerSection((start,), (end,)),))


def tags(name: str) -> ReasoningFormat:
    """<name>…</name>"""
    return marked(f"<{name}>", f"</{name}>")


def wrapper(start: str, end: str) -> AnswerSection:
    return AnswerSection((start,), (end,), is_reasoning=False)


MESSAGE_END = "<|end|>"
HARMONY = ReasoningFormat(
    ("<|channel|>analysis<|message|>",),
    (
        AnswerSection(
            ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>analysis<|message|>"),
            (MESSAGE_END,),
        ),
        AnswerSection(
            (
                "<|channel|>final<|message|>",
                "<|start|>assistant<|channel|>final<|message|>",
                "<|channel|>final <|constrain|>json<|message|>",
                "<|start|>assistant<|channel|>final <|constrain|>json<|message|>",
                "<|channel|>commentary<|message|>",
                "<|start|>assistant<|channel|>commentary<|message|>",
            ),
            (MESSAGE_END,),
            is_reasoning=False,
        ),
    ),
)
SOLAR = ReasoningFormat(
    ("assistant<|think|>",),
    (AnswerSection(("<|think|>",), (MESSAGE_END,)), wrapper("<|content|>", MESSAGE_END)),
    ("<|begin|>assistant",),
)
KIMI_K3 = ReasoningFormat(
    ("open_tag('think'",),
    (
        AnswerSection(("<|open|>think<|sep|>",), ("<|close|>think<|sep|>",)),
        wrapper("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    ),
    ("<|close|>message<|sep|>",),
)
HUNYUAN_3 = ReasoningFormat(
    ("<think{}>",),  # the template puts the suffix in
    (AnswerSection(("<think:opensource>",), ("</think:opensource>",)),),
)
GRANITE_3_2 = ReasoningFormat(
    ("Here is my thought process:",),
    (
        AnswerSection(
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
        ),
    ),
)
# The first format one of whose texts the chat template has is the model's.
FORMATS: tuple[ReasoningFormat, ...] = (
    HARMONY,  # gpt-oss
    SOLAR,
    KIMI_K3,
    HUNYUAN_3,
    marked("<|channel>thought", "<channel|>"),  # Gemma 4
    marked("[THINK]", "[/THINK]"),  # Magistral, Ministral
    marked("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    marked("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    marked("◁think▷", "◁/think▷"),  # Kimi-VL
    tags("seed:think"),
    tags("mm:think"),  # MiniMax M3
    tags("longcat_think"),
    tags("thought"),  # EXAONE Deep
    tags("think"),  # Qwen, DeepSeek, GLM, Nemotron, MiniMax M2 and most others
    GRANITE_3_2,
)
# A text of the chat template → the wrapper around the text behind the reasoning.
WRAPPERS: Mapping[str, AnswerSection] = {
    "<answer>": wrapper("<answer>", "</answer>"),  # Hunyuan
    "<response></response>": wrapper("<response>", "</response>"),  # Granite 3.3
    r"<response>\n": wrapper("<response>", "</response>"),  # ERNIE 4.5
    "<|START_TEXT|>": wrapper("<|START_TEXT|>", "<|END_TEXT|>"),  # Command
    "<|START_RESPONSE|>": wrapper("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
}


def detect_format(template: str) -> ReasoningFormat | None:
    """The format of a model with this chat template; None: the template shows no reasoning."""
    for each in FORMATS:
        if any(text in template for text in each.template_texts):
            wrappers = tuple(section for text, section in WRAPPERS.items() if text in template)
            return replace(each, wrappers=wrappers)
    return None
