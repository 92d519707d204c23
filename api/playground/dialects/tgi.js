/** Text Generation Inference: /generate, and /generate_stream with server-sent events. Text mode only. */

import { activeParams } from "../params.js";
import { serverSentEvents } from "../streams.js";

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  typical_p: "typical_p",
  seed: "seed",
  max_tokens: "max_new_tokens",
  stop: "stop",
  truncate: "truncate",
  repetition_penalty: "repetition_penalty",
  frequency_penalty: "frequency_penalty",
  watermark: "watermark",
  response_format: "grammar",
  format_spec: "",
  n: "",
  logprobs: "top_n_tokens",
};
const SAMPLING = ["temperature", "top_p", "top_k", "typical_p", "seed"];
const FORMATS = {
  schema: (spec) => ({ type: "json", value: JSON.parse(spec) }),
  regex: (spec) => ({ type: "regex", value: spec }),
};
const FINISH_REASONS = { length: "length", eos_token: "stop", stop_sequence: "stop" };

function serialize({ preamble, prompt, params, adapter }, stream) {
  const active = activeParams(params, FIELDS);
  const { temperature } = active;
  if (temperature === 0) for (const name of SAMPLING) delete active[name];
  const { response_format, format_spec, n, ...simple } = active;
  const parameters = { do_sample: temperature !== 0, details: true };
  if (adapter) parameters.adapter_id = adapter;
  for (const [name, value] of Object.entries(simple)) parameters[FIELDS[name]] = value;
  if (response_format in FORMATS) parameters.grammar = FORMATS[response_format](format_spec);
  const path = stream ? "/generate_stream" : "/generate";
  return { path, body: { inputs: preamble + prompt, parameters } };
}

async function* readEvents(stream, { params }) {
  for await (const { token, top_tokens, generated_text, details } of serverSentEvents(stream)) {
    const { text, special } = token;
    const logprobs = params.logprobs === null ? {} : { logprob: token.logprob, top: top_tokens };
    yield { index: 0, text, special, ...logprobs };
    if (generated_text !== null) {
      const { finish_reason } = details;
      const stop = matchedStop(finish_reason, generated_text, params);
      yield { index: 0, finishReason: FINISH_REASONS[finish_reason], stop };
    }
  }
}

/** TGI does not name the stop string that matched, but leaves it at the end of generated_text. */
const matchedStop = (finishReason, text, params) =>
  finishReason === "stop_sequence" ? params.stop.find((stop) => text.endsWith(stop)) : null;

export const tgi = {
  name: "TGI",
  modes: ["text"],
  fields: FIELDS,
  formats: Object.keys(FORMATS),
  supportsN: false,
  supportsContinuation: false,
  serialize,
  readEvents,
};
