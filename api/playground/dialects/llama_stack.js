/** Llama Stack: /inference/completion and /inference/chat_completion, a line of JSON for each event. */

import { jsonLines } from "../lines.js";
import { chosen } from "../params.js";

const FIELDS = {
  temperature: "strategy.temperature",
  top_p: "strategy.top_p",
  top_k: "strategy.top_k",
  max_tokens: "max_tokens",
  repetition: "repetition_penalty",
  stop: "stop",
  seed: "seed",
  n: "",
  logprobs: "logprobs.top_k",
  form: "response_format",
  spec: "",
};
const FORMS = {
  schema: (spec) => ({ type: "json_schema", json_schema: JSON.parse(spec) }),
  grammar: (spec) => ({ type: "grammar", bnf: spec }),
};
const REASONS = { end_of_turn: "stop", end_of_message: "stop", out_of_tokens: "length" };

function request(asked, streamed) {
  const chat = asked.mode === "chat";
  const said = chat ? { messages: asked.messages } : { content: asked.preamble + asked.prompt };
  const { params } = asked;
  const body = { model: asked.model, ...said, sampling_params: sampling(chosen(params, FIELDS)) };
  if (params.form in FORMS) body.response_format = FORMS[params.form](params.spec);
  if (params.logprobs !== null) body.logprobs = { top_k: params.logprobs };
  return {
    path: chat ? "/inference/chat_completion" : "/inference/completion",
    body: { ...body, stream: streamed },
  };
}

/** The protocol has strategies, each with values of its own: top k, where one is given, else top p. */
function sampling({ temperature = 1, top_p = 1, top_k, repetition, max_tokens, stop, seed }) {
  const drawn = top_k ? { type: "top_k", temperature, top_k } : { type: "top_p", temperature, top_p };
  const strategy = temperature === 0 ? { type: "greedy" } : drawn;
  return { strategy, max_tokens, repetition_penalty: repetition, stop, seed };
}

async function* read(stream) {
  for await (const said of jsonLines(stream)) {
    const { delta, stop_reason, logprobs } = said.event ?? said;
    if (delta || logprobs) yield { index: 0, text: delta, ...scores(delta, logprobs?.[0]) };
    if (stop_reason) yield { index: 0, reason: REASONS[stop_reason] ?? stop_reason };
  }
}

/** The chosen token's logprob stands among its alternatives', under its text. */
function scores(text, scored) {
  if (!scored) return {};
  const top = Object.entries(scored.logprobs_by_token).map(([text, logprob]) => ({ text, logprob }));
  const own = top.find((other) => other.text === text) ?? top[0];
  return { logprob: own?.logprob, top: top.sort((a, b) => b.logprob - a.logprob) };
}

export const llamaStack = {
  name: "Llama Stack",
  modes: ["text", "chat"],
  fields: FIELDS,
  forms: Object.keys(FORMS),
  several: false,
  request,
  read,
};
