"""Answers with reasoning as models of each family write them, with what their chat templates have of it."""

from dataclasses import dataclass, field

THOUGHT, REPLY = "Two and two.\n\nIs it </b> 4?", "It is **4**.\n\nQuite <sure>."


@dataclass(frozen=True, slots=True)
class Family:
    """How a family of models reasons.

    template    a part of its chat template
    prompt_end  of a prompt that the template renders
    full_text   of an answer with the reasoning THOUGHT and the text REPLY
    special     its markers that are special tokens
    """

    template: str
    prompt_end: str
    full_text: str
    special: tuple[str, ...] = field(default=())


THINK_TEMPLATE = "{%- set content = content.split('</think>')[-1] %}"
HARMONY_TOKENS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>")
KIMI_TOKENS = ("<|open|>", "<|close|>", "<|sep|>")
SOLAR_TOKENS = ("<|think|>", "<|end|>", "<|begin|>", "<|content|>")
COMMAND_TOKENS = ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
FAMILIES = {
    "qwen3": Family(THINK_TEMPLATE, "<|im_start|>assistant\n", f"<think>\n{THOUGHT}\n</think>\n\n{REPLY}"),
    "qwen3-thinking-2507, deepseek-r1": Family(
        THINK_TEMPLATE, "<|im_start|>assistant\n<think>\n", f"{THOUGHT}\n</think>\n\n{REPLY}"
    ),
    "deepseek-r1, opened twice": Family(
        THINK_TEMPLATE, "<｜Assistant｜><think>\n", f"<think>\n{THOUGHT}\n</think>\n\n{REPLY}"
    ),
    "glm-4.7": Family(THINK_TEMPLATE, "<|assistant|><think>", f"{THOUGHT}</think>{REPLY}", ("</think>",)),
    "nemotron, minimax-m2": Family(
        THINK_TEMPLATE, "]~b]ai\n<think>\n", f"{THOUGHT}\n</think>\n\n{REPLY}", ("<think>", "</think>")
    ),
    "magistral": Family(
        "{{- '[THINK]' + block['thinking'] + '[/THINK]' }}",
        "[/INST]",
        f"[THINK]{THOUGHT}[/THINK]{REPLY}",
        ("[THINK]", "[/THINK]"),
    ),
    "gpt-oss": Family(
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|start|>assistant",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{REPLY}",
        HARMONY_TOKENS,
    ),
    "gpt-oss, in JSON": Family(
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|start|>assistant",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
        f"<|start|>assistant<|channel|>final <|constrain|>json<|message|>{REPLY}",
        HARMONY_TOKENS,
    ),
    "gpt-oss, with a preamble": Family(
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|start|>assistant",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
        f"<|start|>assistant<|channel|>commentary<|message|>{REPLY}<|end|>",
        HARMONY_TOKENS,
    ),
    "gemma-4": Family(
        r"{{- '<|channel>thought\n<channel|>' -}}",
        "<|turn>model\n",
        f"<|channel>thought\n{THOUGHT}<channel|>{REPLY}",
        ("<|channel>", "<channel|>"),
    ),
    "command-a, r7b": Family(
        "<|START_THINKING|>{{message.tool_plan}}<|END_THINKING|><|START_RESPONSE|>",
        "<|CHATBOT_TOKEN|>",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{REPLY}<|END_RESPONSE|>",
        COMMAND_TOKENS,
    ),
    "command 2 moe": Family(
        "<|START_THINKING|>{% endif %}<|START_TEXT|>",
        "<|CHATBOT_TOKEN|><|START_THINKING|>",
        f"{THOUGHT}<|END_THINKING|><|START_TEXT|>{REPLY}<|END_TEXT|>",
        COMMAND_TOKENS[:2],
    ),
    "seed-oss": Family(
        "{%- set think_begin_token = '<seed:think>' -%}",
        "<seed:bos>assistant\n",
        f"<seed:think>{THOUGHT}</seed:think>{REPLY}",
    ),
    "minimax-m3": Family(
        "{%- set think_begin_token = '<mm:think>' -%}", "]~b]ai\n<mm:think>", f"{THOUGHT}</mm:think>{REPLY}"
    ),
    "hunyuan-a13b": Family(
        THINK_TEMPLATE + "{% if '<answer>' in content %}",
        "<|extra_0|>",
        f"<think>\n{THOUGHT}\n</think>\n<answer>\n{REPLY}\n</answer>",
    ),
    "hunyuan-3": Family(
        "{%- set think_begin_token = '<think{}>'.format(HYTK) %}",
        "<｜hy_Assistant:opensource｜><think:opensource>",
        f"{THOUGHT}</think:opensource>{REPLY}",
    ),
    "granite-3.2": Family(
        "Write your thoughts after 'Here is my thought process:'",
        "assistant<|end_of_role|>",
        f"Here is my thought process:\n{THOUGHT}\n\nHere is my response:\n{REPLY}",
    ),
    "granite-3.3": Family(
        "between <think></think> and write your response between <response></response>",
        "assistant<|end_of_role|>",
        f"<think>{THOUGHT}</think>\n\n<response>{REPLY}</response>",
    ),
    "ernie-4.5": Family(
        r"'<think>\n' + thoughts + '\n</think>\n\n\n<response>\n'",
        "<|im_start|>assistant\n<think>\n",
        f"{THOUGHT}\n</think>\n\n\n<response>\n{REPLY}\n</response>\n",
    ),
    "apertus": Family(
        "{%- set inner_token = '<|inner_prefix|>' -%}",
        "<|assistant_start|>",
        f"<|inner_prefix|>{THOUGHT}<|inner_suffix|>{REPLY}",
        ("<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    "solar-open": Family(
        '{{- "<|begin|>assistant<|think|>" }}',
        "<|begin|>assistant",
        f"<|think|>{THOUGHT}<|end|><|begin|>assistant<|content|>{REPLY}<|end|>",
        SOLAR_TOKENS,
    ),
    "kimi-k3": Family(
        "{{- open_tag('think' if thinking else 'response') -}}",
        "<|open|>think<|sep|>",
        f"{THOUGHT}<|close|>think<|sep|><|open|>response<|sep|>{REPLY}"
        "<|close|>response<|sep|><|close|>message<|sep|>",
        KIMI_TOKENS,
    ),
    "kimi-vl": Family("◁think▷", "<|im_middle|>", f"◁think▷{THOUGHT}◁/think▷{REPLY}"),
    "exaone-deep": Family("<thought>\n", "[|assistant|]<thought>\n", f"{THOUGHT}\n</thought>\n\n{REPLY}"),
    "longcat": Family(
        "<longcat_think>", "ASSISTANT:", f"<longcat_think>\n{THOUGHT}\n</longcat_think>\n{REPLY}"
    ),
}
