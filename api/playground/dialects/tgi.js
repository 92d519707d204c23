/** Text Generation Inference: /generate_stream, server-sent events; /generate, whole. Chats are OpenAI's. */

import { serverEvents } from "../lines.js";
import { chosen } from "../params.js";

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  typical_p: "typical_p",
  seed: "seed",
  max_tokens: "max_new_tokens",
  stop: "stop",
  truncate: "truncate",
  repetition: "repetition_penalty",
  frequency: "frequency_penalty",
  watermark: "watermark",
  form: "grammar",
  spec: "",
  n: "",
  logprobs: "top_n_tokens",
};
const CHANCE = ["temperature", "top_p", "top_k", "typical_p", "seed"];
const FORMS = {
  schema: (spec) => ({ type: "json", value: JSON.parse(spec) }),
  regex: (spec) => ({ type: "regex", value: spec }),
};
const REASONS = { length: "length", eos_token: "stop", stop_sequence: "stop" };

function request({ preamble, prompt, params }, streamed) {
  const told = chosen(params, FIELDS);
  const { temperature } = told;
  if (temperature === 0) for (const name of CHANCE) delete told[name];
  const { form, spec, n, ...plain } = told;
  const parameters = { do_sample: temperature !== 0, details: true };
  for (const [name, value] of Object.entries(plain)) parameters[FIELDS[name]] = value;
  if (form in FORMS) parameters.grammar = FORMS[form](spec);
  const path = streamed ? "/generate_stream" : "/generate";
  return { path, body: { inputs: preamble + prompt, parameters } };
}

async function* read(stream, asked) {
  for await (const { token, top_tokens, generated_text, details } of serverEvents(stream)) {
    const { text, special } = token;
    const scores = asked.params.logprobs === null ? {} : { logprob: token.logprob, top: top_tokens };
    yield { index: 0, text, special, ...scores };
    if (generated_text !== null) {
      const { finish_reason } = details;
      const stop = stopped(finish_reason, generated_text, asked);
      yield { index: 0, reason: REASONS[finish_reason], stop };
    }
  }
}

/** The stop string is not named, but it stands at the answer's end: here it is kept. */
const stopped = (reason, text, { params }) =>
  reason === "stop_sequence" ? params.stop.find((stop) => text.endsWith(stop)) : null;

export const tgi = {
  name: "TGI",
  modes: ["text"],
  fields: FIELDS,
  forms: Object.keys(FORMS),
  several: false,
  request,
  read,
};
