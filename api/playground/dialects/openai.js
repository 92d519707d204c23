/** OpenAI with vLLM's extensions: /v1/completions and /v1/chat/completions, server-sent events. */

import { activeParams } from "../params.js";
import { endsWithAssistant } from "../request.js";
import { serverSentEvents } from "../streams.js";

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  min_p: "min_p",
  seed: "seed",
  max_tokens: "max_tokens",
  min_tokens: "min_tokens",
  stop: "stop",
  include_stop: "include_stop_str_in_output",
  stop_token_ids: "stop_token_ids",
  ignore_eos: "ignore_eos",
  truncate: "truncate_prompt_tokens",
  repetition_penalty: "repetition_penalty",
  presence_penalty: "presence_penalty",
  frequency_penalty: "frequency_penalty",
  bad_words: "bad_words",
  allowed_token_ids: "allowed_token_ids",
  logit_bias: "logit_bias",
  response_format: "response_format",
  format_spec: "",
  n: "n",
  logprobs: "logprobs",
  show_special: "skip_special_tokens",
};
const FORMATS = {
  json: () => ({ response_format: { type: "json_object" } }),
  schema: (spec) => ({
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(spec) } },
  }),
  regex: (spec) => ({ structured_outputs: { regex: spec } }),
  choice: (spec) => ({ structured_outputs: { choice: spec.split("\n").filter(Boolean) } }),
  grammar: (spec) => ({ structured_outputs: { grammar: spec } }),
};
const SERIALIZERS = {
  logit_bias: (lines) => ({ logit_bias: Object.fromEntries(lines.map((line) => parseBias(line))) }),
  response_format: (name, { format_spec }) => FORMATS[name](format_spec),
  format_spec: () => ({}),
  show_special: () => ({ skip_special_tokens: false }),
  logprobs: (count, _, isChat) => (isChat ? { logprobs: true, top_logprobs: count } : { logprobs: count }),
};

function parseBias(line) {
  const [id, value] = line.split(":");
  return [id.trim(), Number(value)];
}

function serialize(request, stream) {
  const isChat = request.mode === "chat";
  const input = isChat ? { messages: request.messages } : { prompt: request.preamble + request.prompt };
  const body = { model: request.model, ...input, ...serializeParams(request.params, isChat), stream };
  if (isChat && endsWithAssistant(request))
    Object.assign(body, { add_generation_prompt: false, continue_final_message: true });
  return { path: isChat ? "/v1/chat/completions" : "/v1/completions", body };
}

function serializeParams(params, isChat) {
  const active = Object.entries(activeParams(params, FIELDS));
  return Object.assign(
    {},
    ...active.map(
      ([name, value]) => SERIALIZERS[name]?.(value, params, isChat) ?? { [FIELDS[name]]: value },
    ),
  );
}

async function* readEvents(stream) {
  for await (const { choices } of serverSentEvents(stream)) {
    for (const choice of choices ?? []) yield* choiceEvents(choice);
  }
}

/** One event per token if the logprobs list the tokens of the chunk's text, else one for the whole chunk. */
function* choiceEvents({ index, text, delta, logprobs, finish_reason, stop_reason }) {
  const content = text ?? delta?.content ?? "";
  const reasoning = delta?.reasoning_content ?? "";
  const tokens = tokensOf(logprobs);
  if (reasoning) {
    yield { index, ...tokens[0], text: content, reasoning };
  } else if (tokens.length && tokens.map((token) => token.text).join("") === content) {
    for (const token of tokens) yield { index, ...token };
  } else if (content || tokens.length) {
    yield { index, ...tokens[0], text: content };
  }
  if (finish_reason) yield { index, finishReason: finish_reason, stop: stop_reason };
}

/** Chat logprobs are a list of token objects; completion logprobs are parallel lists. */
function tokensOf(logprobs) {
  if (logprobs?.content) {
    return logprobs.content.map((token) => ({
      text: token.token,
      logprob: token.logprob,
      top: token.top_logprobs.map((other) => ({ text: other.token, logprob: other.logprob })),
    }));
  }
  return (logprobs?.tokens ?? []).map((text, i) => ({
    text,
    logprob: logprobs.token_logprobs[i],
    top: Object.entries(logprobs.top_logprobs?.[i] ?? {})
      .map(([text, logprob]) => ({ text, logprob }))
      .sort((a, b) => b.logprob - a.logprob),
  }));
}

export const openai = {
  name: "OpenAI",
  modes: ["text", "chat"],
  fields: FIELDS,
  formats: Object.keys(FORMATS),
  supportsN: true,
  supportsContinuation: true,
  serialize,
  readEvents,
};
