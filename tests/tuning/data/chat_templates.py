"""Chat templates as published models have them, each with its special tokens and a small tokenizer."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from transformers import PreTrainedTokenizerFast

from inference.text.chat_template import ChatTemplate
from tests.text.tokenizers_of_three_kinds import KINDS

CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Qwen 2.5: a system message of its own, and tools.
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- set is_plain = message.role == "assistant" and not message.tool_calls %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) or is_plain %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
# Qwen 3: thoughts before the last question are dropped, and an answer without thoughts gets an empty one.
QWEN_3 = """{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and ns.last_query_index == messages|length - 1 and not ns.found %}
        {%- set ns.last_query_index = index %}
        {%- set ns.found = true %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role != "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- else %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA_3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
    "{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
PHI_3 = (
    "{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
# DeepSeek R1: thoughts are dropped from every answer, and the prompt opens one.
DEEPSEEK_R1 = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(system_prompt='') %}{%- for message in messages %}"
    "{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}"
    "{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}"
    "{%- if message['role'] == 'user' %}{{'<｜User｜>' + message['content']}}{%- endif %}"
    "{%- if message['role'] == 'assistant' and message['content'] is not none %}"
    "{% set content = message['content'] %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}"
    "{% if add_generation_prompt %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"
)
DEEPSEEK_V3 = DEEPSEEK_R1.replace("<think>\\n'}}{% endif %}", "'}}{% endif %}")
# SmolLM 3: the template marks the answers itself.
GENERATION = """{%- for message in messages -%}
    {%- if message.role == "user" or message.role == "system" -%}
        {{ "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {%- generation -%}
        {{ "<|im_start|>assistant\n<think>\n\n</think>\n" + message.content + "<|im_end|>\n" }}
        {%- endgeneration -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\n<think>\n\n</think>\n" }}
{%- endif -%}
"""
# As TRL's training templates: the header is outside of the block.
GENERATION_BODY = (
    "{%- for message in messages %}{%- if message.role == 'assistant' %}{{- '<|im_start|>assistant\n' }}"
    "{%- generation -%}{{- message.content + '<|im_end|>' }}{%- endgeneration -%}{{- '\n' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
GENERATION_CONTENT = GENERATION_BODY.replace(" + '<|im_end|>' }}", " }}").replace(
    "{%- endgeneration -%}{{- '\n' }}", "{%- endgeneration -%}{{- '<|im_end|>\n' }}"
)
# GLM 4: an answer has no end of its own; the next turn's header ends it.
GLM_4 = (
    "[gMASK]<sop>{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
# GPT-OSS: an answer is in a channel, and ends differently when another turn follows.
GPT_OSS = (
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + message.content }}"
    "{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"
)
# Gemma 4 of diffusion models: no header is prompted behind the result of a tool, but the text has one.
WITHOUT_TOOL_HEADER = (
    "{%- for message in messages %}{%- if message.tool_calls %}"
    "{{- '<|im_start|>assistant\n' + message.tool_calls[0].function | tojson + '<|im_end|>' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt and messages[-1].role != 'tool' %}"
    "{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
# No header, no end of a turn: nothing surrounds an answer.
BARE = (
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{%- if message.reasoning_content %}{{- '(' + message.reasoning_content + ')' }}{%- endif %}"
    "{{- message.content }}{%- for call in message.tool_calls or [] %}"
    "{{- {'arguments': call.function.arguments, 'name': call.function.name} | tojson }}{%- endfor %}"
    "{%- else %}{{- '[' + message.content + ']' }}{%- endif %}{%- endfor %}"
)

IM = ("<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class PublishedTemplate:
    """A template and its special tokens. end: the end of a turn; header: what precedes an answer."""

    source: str
    specials: tuple[str, ...]
    end: str
    bos: str = "<s>"
    eos: str = "</s>"
    kind: str = "byte-level"
    added: tuple[str, ...] = field(default=())


TEMPLATES = {
    "chatml": PublishedTemplate(CHATML, IM, "<|im_end|>"),
    "qwen 2.5": PublishedTemplate(QWEN, IM, "<|im_end|>", added=("<tool_call>", "</tool_call>")),
    "qwen 3": PublishedTemplate(QWEN_3, IM, "<|im_end|>", added=("<think>", "</think>")),
    "llama 3": PublishedTemplate(
        LLAMA_3, ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), "<|eot_id|>"
    ),
    "llama 2": PublishedTemplate(LLAMA_2, (), " </s>", kind="sentencepiece"),
    "mistral": PublishedTemplate(MISTRAL, (), "</s>", kind="sentencepiece"),
    "gemma": PublishedTemplate(GEMMA, ("<start_of_turn>", "<end_of_turn>"), "<end_of_turn>", eos="<eos>"),
    "phi 3": PublishedTemplate(
        PHI_3, ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"), "<|end|>", eos="<|endoftext|>"
    ),
    "deepseek v3": PublishedTemplate(
        DEEPSEEK_V3,
        ("<｜User｜>", "<｜Assistant｜>"),
        "<｜end▁of▁sentence｜>",
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
    ),
    "deepseek r1": PublishedTemplate(
        DEEPSEEK_R1,
        ("<｜User｜>", "<｜Assistant｜>"),
        "<｜end▁of▁sentence｜>",
        bos="<｜begin▁of▁sentence｜>",
        eos="<｜end▁of▁sentence｜>",
        added=("<think>", "</think>"),
    ),
    "generation": PublishedTemplate(GENERATION, IM, "<|im_end|>", added=("<think>", "</think>")),
    "generation body": PublishedTemplate(GENERATION_BODY, IM, "<|im_end|>"),
    "glm 4": PublishedTemplate(
        GLM_4, ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"), "", eos="<|endoftext|>"
    ),
    "gpt-oss": PublishedTemplate(
        GPT_OSS,
        ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"),
        "<|return|>",
        eos="<|return|>",
    ),
    "none": PublishedTemplate("", (), ""),
}

PARTIAL_TEMPLATES = {
    "generation without end": PublishedTemplate(GENERATION_CONTENT, IM, ""),
    "bare": PublishedTemplate(BARE, (), ""),
    "without tool header": PublishedTemplate(WITHOUT_TOOL_HEADER, IM, "<|im_end|>"),
}


@cache
def tokenizer_of(name: str) -> Any:
    """A small tokenizer with the template and its special tokens."""
    template = (TEMPLATES | PARTIAL_TEMPLATES)[name]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=KINDS[template.kind](),
        unk_token="<unk>",
        bos_token=template.bos,
        eos_token=template.eos,
        additional_special_tokens=list(template.specials),
    )
    tokenizer.add_tokens(list(template.added))
    tokenizer.chat_template = template.source or None
    return tokenizer


@cache
def chat_template_of(name: str) -> ChatTemplate:
    return ChatTemplate(tokenizer_of(name))
