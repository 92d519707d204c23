/** OpenAI with vLLM's additions: /v1/completions and /v1/chat/completions, server-sent events. */

import { isAnswerTo } from "../asked.js";
import { serverEvents } from "../lines.js";
import { chosen } from "../params.js";

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  min_p: "min_p",
  seed: "seed",
  max_tokens: "max_tokens",
  min_tokens: "min_tokens",
  stop: "stop",
  keep_stop: "include_stop_str_in_output",
  stop_tokens: "stop_token_ids",
  ignore_eos: "ignore_eos",
  truncate: "truncate_prompt_tokens",
  repetition: "repetition_penalty",
  presence: "presence_penalty",
  frequency: "frequency_penalty",
  bad_words: "bad_words",
  allowed_tokens: "allowed_token_ids",
  bias: "logit_bias",
  form: "response_format",
  spec: "",
  n: "n",
  logprobs: "logprobs",
  show_special: "skip_special_tokens",
};
const FORMS = {
  json: () => ({ response_format: { type: "json_object" } }),
  schema: (spec) => ({
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(spec) } },
  }),
  regex: (spec) => ({ structured_outputs: { regex: spec } }),
  choice: (spec) => ({ structured_outputs: { choice: spec.split("\n").filter(Boolean) } }),
  grammar: (spec) => ({ structured_outputs: { grammar: spec } }),
};
const SHAPED = {
  bias: (lines) => ({ logit_bias: Object.fromEntries(lines.map((line) => biased(line))) }),
  form: (form, { spec }) => FORMS[form](spec),
  spec: () => ({}),
  show_special: () => ({ skip_special_tokens: false }),
  logprobs: (count, _, chat) => (chat ? { logprobs: true, top_logprobs: count } : { logprobs: count }),
};

function biased(line) {
  const [id, value] = line.split(":");
  return [id.trim(), Number(value)];
}

function request(asked, streamed) {
  const chat = asked.mode === "chat";
  const said = chat ? { messages: asked.messages } : { prompt: asked.preamble + asked.prompt };
  const body = { model: asked.model, ...said, ...shaped(asked.params, chat), stream: streamed };
  if (chat && isAnswerTo(asked))
    Object.assign(body, { add_generation_prompt: false, continue_final_message: true });
  return { path: chat ? "/v1/chat/completions" : "/v1/completions", body };
}

function shaped(params, chat) {
  const told = Object.entries(chosen(params, FIELDS));
  return Object.assign(
    {},
    ...told.map(([name, value]) => SHAPED[name]?.(value, params, chat) ?? { [FIELDS[name]]: value }),
  );
}

async function* read(stream) {
  for await (const { choices } of serverEvents(stream)) {
    for (const choice of choices ?? []) yield* events(choice);
  }
}

function* events({ index, text, delta, logprobs, finish_reason, stop_reason }) {
  const said = text ?? delta?.content ?? "";
  const scored = tokens(logprobs);
  if (scored.length && scored.map((token) => token.text).join("") === said) {
    for (const token of scored) yield { index, ...token };
  } else if (said || scored.length) {
    yield { index, ...scored[0], text: said };
  }
  if (finish_reason) yield { index, reason: finish_reason, stop: stop_reason };
}

/** Completions hold lists side by side, chats a list of tokens. */
function tokens(logprobs) {
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
  forms: Object.keys(FORMS),
  several: true,
  continues: true,
  request,
  read,
};
