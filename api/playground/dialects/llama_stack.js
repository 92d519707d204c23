/** Llama Stack: /inference/completion and /inference/chat_completion, streamed as lines of JSON. */

import { activeParams } from "../params.js";
import { jsonLines } from "../streams.js";

const FIELDS = {
  temperature: "strategy.temperature",
  top_p: "strategy.top_p",
  top_k: "strategy.top_k",
  max_tokens: "max_tokens",
  repetition_penalty: "repetition_penalty",
  stop: "stop",
  seed: "seed",
  n: "",
  logprobs: "logprobs.top_k",
  response_format: "response_format",
  format_spec: "",
};
const FORMATS = {
  schema: (spec) => ({ type: "json_schema", json_schema: JSON.parse(spec) }),
  grammar: (spec) => ({ type: "grammar", bnf: spec }),
};
const FINISH_REASONS = { end_of_turn: "stop", end_of_message: "stop", out_of_tokens: "length" };

function serialize(request, stream) {
  const { mode, model, params } = request;
  const isChat = mode === "chat";
  const input = isChat ? { messages: request.messages } : { content: request.preamble + request.prompt };
  const body = { model, ...input, sampling_params: samplingParams(activeParams(params, FIELDS)) };
  const { response_format, format_spec } = params;
  if (response_format in FORMATS) body.response_format = FORMATS[response_format](format_spec);
  if (params.logprobs !== null) body.logprobs = { top_k: params.logprobs };
  return {
    path: isChat ? "/inference/chat_completion" : "/inference/completion",
    body: { ...body, stream },
  };
}

/** Llama Stack has one strategy per request: greedy at temperature 0, top_k where one is set, else top_p. */
function samplingParams(params) {
  const { temperature = 1, top_p = 1, top_k, repetition_penalty, max_tokens, stop, seed } = params;
  const random = top_k ? { type: "top_k", temperature, top_k } : { type: "top_p", temperature, top_p };
  const strategy = temperature === 0 ? { type: "greedy" } : random;
  return { strategy, max_tokens, repetition_penalty, stop, seed };
}

async function* readEvents(stream) {
  for await (const line of jsonLines(stream)) {
    const { delta, stop_reason, logprobs } = line.event ?? line;
    if (delta || logprobs) yield { index: 0, text: delta, ...tokenLogprobs(delta, logprobs?.[0]) };
    if (stop_reason) yield { index: 0, finishReason: FINISH_REASONS[stop_reason] ?? stop_reason };
  }
}

/** The sampled token's logprob is one of logprobs_by_token, under the token's text. */
function tokenLogprobs(text, logprobs) {
  if (!logprobs) return {};
  const top = Object.entries(logprobs.logprobs_by_token).map(([text, logprob]) => ({ text, logprob }));
  const sampled = top.find((other) => other.text === text) ?? top[0];
  return { logprob: sampled?.logprob, top: top.sort((a, b) => b.logprob - a.logprob) };
}

export const llamaStack = {
  name: "Llama Stack",
  modes: ["text", "chat"],
  fields: FIELDS,
  formats: Object.keys(FORMATS),
  supportsN: false,
  supportsContinuation: false,
  serialize,
  readEvents,
};
