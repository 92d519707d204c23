"""Two calls as models of each family write them, after their chat templates, and the tags in them."""

import re

PARIS_AND_NOW = [("weather", {"city": "Paris"}), ("now", {})]
PARIS_JSON = '{"name": "weather", "arguments": {"city": "Paris"}}'
NOW_JSON = '{"name": "now", "arguments": {}}'
FAMILY_CALLS = {
    "apertus": '<|tools_prefix|>[{"weather": {"city": "Paris"}}, {"now": {}}]<|tools_suffix|>',
    "command-r7b": """<|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Paris"}},
    {"tool_call_id": "1", "tool_name": "now", "parameters": {}}
]<|END_ACTION|>""",
    "deepseek-r1": """<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather
```json
{"city": "Paris"}
```<｜tool▁call▁end｜>
<｜tool▁call▁begin｜>function<｜tool▁sep｜>now
```json
{}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>""",
    "deepseek-v3.1": "<｜tool▁calls▁begin｜>"
    '<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'
    "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>",
    "deepseek-v3.2": """<｜DSML｜function_calls>
<｜DSML｜invoke name="weather">
<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
</｜DSML｜invoke>
<｜DSML｜invoke name="now">
</｜DSML｜invoke>
</｜DSML｜function_calls>""",
    "gemma-4": '<|tool_call>call:weather{city:<|"|>Paris<|"|>}<tool_call|><|tool_call>call:now{}<tool_call|>',
    "glm-4.6": """<tool_call>weather
<arg_key>city</arg_key>
<arg_value>Paris</arg_value>
</tool_call>
<tool_call>now
</tool_call>""",
    "glm-4.7": "<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>"
    "<tool_call>now</tool_call>",
    "gpt-oss, at once": ' to=functions.weather<|channel|>commentary json<|message|>{"city": "Paris"}'
    "<|start|>assistant to=functions.now<|channel|>analysis <|constrain|>json<|message|>{}",
    "gpt-oss": '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}'
    "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}",
    "granite-3.3": '<|tool_call|>[{"arguments": {"city": "Paris"}, "name": "weather"}, '
    '{"arguments": {}, "name": "now"}]',
    "jamba": f"<tool_calls>[\n{PARIS_JSON},\n{NOW_JSON}\n]</tool_calls>",
    "kimi-k2": "<|tool_calls_section_begin|>"
    '<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>'
    "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
    "<|tool_calls_section_end|>",
    "lfm2": '<|tool_call_start|>[weather(city="Paris"), now()]<|tool_call_end|>',
    "longcat": f"<longcat_tool_call>{PARIS_JSON}</longcat_tool_call>\n"
    f"<longcat_tool_call>{NOW_JSON}</longcat_tool_call>",
    "minicpm-5": '<function name="weather"><param name="city"><![CDATA[Paris]]></param></function>'
    '<function name="now"></function>',
    "minimax-m1": f"<tool_calls>\n{PARIS_JSON}\n{NOW_JSON}\n</tool_calls>",
    "minimax-m2": """<minimax:tool_call>
<invoke name="weather">
<parameter name="city">Paris</parameter>
</invoke>
<invoke name="now">
</invoke>
</minimax:tool_call>""",
    "mistral-small-3.2": '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "Paris"}'
    "[TOOL_CALLS]now[CALL_ID]bcdefghij[ARGS]{}",
    "nemotron-nano-2": f"<TOOLCALL>[{PARIS_JSON}, {NOW_JSON}]</TOOLCALL>",
    "olmo-3": '<function_calls>\nweather(city="Paris")\nnow()\n</function_calls>',
    "phi-4-mini": f'<|tool_call|>[{{"type": "function", "function": {PARIS_JSON}}}, '
    f'{{"type": "function", "function": {NOW_JSON}}}]<|/tool_call|>',
    "qwen3-coder": """<tool_call>
<function=weather>
<parameter=city>
Paris
</parameter>
</function>
</tool_call>
<tool_call>
<function=now>
</function>
</tool_call>""",
    "seed-oss": """<seed:tool_call>
<function=weather>
<parameter=city>Paris</parameter>
</function>
</seed:tool_call>
<seed:tool_call>
<function=now>
</function>
</seed:tool_call>""",
    "solar-open": "<|tool_calls|>"
    '<|tool_call:begin|>abcdef<|tool_call:name|>weather<|tool_call:args|>{"city": "Paris"}<|tool_call:end|>'
    "<|tool_call:begin|>bcdefg<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>",
}
# The tags that are, or may be, special tokens of a tokenizer.
SPECIAL_TAGS = re.compile(
    r"(<[|｜][^<>]*[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|</?tool_call>|</?arg_(?:key|value)>|\[[A-Z_]+\])"
)
