/** Neodim: /generate, a line of JSON for each piece of each sequence, then the report of the original. */

import { jsonLines } from "../lines.js";
import { chosen } from "../params.js";

const LENGTH = 128; // a request has to name one

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  typical_p: "typical",
  tfs: "tfs",
  top_a: "top_a",
  contrast: "penalty_alpha",
  order: "warpers_order",
  seed: "seed",
  max_tokens: "generated_tokens_count",
  stop: "stop_strings",
  stop_regex: "stop_strings_type",
  stop_matches: "stop_strings_required_matches_count",
  ignore_eos: "can_stop_early",
  truncate: "max_total_tokens",
  truncate_until: "truncate_prompt_until",
  repetition: "repetition_penalty",
  ngram: "no_repeat_ngram_size",
  range: "repetition_penalty_range",
  slope: "repetition_penalty_slope",
  generated: "repetition_penalty_include_generated",
  with_preamble: "repetition_penalty_include_preamble",
  within: "repetition_penalty_truncate_to_input",
  instead: "repetition_penalty_prompt",
  bad_words: "words_blacklist",
  bad_first: "words_blacklist_at_start",
  only_words: "words_whitelist",
  n: "sequences_count",
};
const SHAPED = {
  stop_regex: () => ({ stop_strings_type: "regex" }),
  ignore_eos: () => ({}),
  truncate: () => ({}),
};

function request({ preamble, prompt, params, context }, streamed) {
  const told = chosen(params, FIELDS);
  const length = params.max_tokens ?? LENGTH;
  const body = {
    preamble,
    prompt,
    generated_tokens_count: length,
    max_total_tokens: params.truncate === null ? context : Math.min(context, params.truncate + length),
    can_stop_early: !params.ignore_eos,
  };
  for (const [name, value] of Object.entries(told)) {
    Object.assign(body, SHAPED[name]?.() ?? { [FIELDS[name]]: value });
  }
  if (params.temperature === 0) body.top_k = 1; // a temperature of 0 is none here, not greedy
  return { path: "/generate", body: streamed ? { ...body, stream: true } : body };
}

async function* read(stream, { prompt, params }) {
  for await (const said of jsonLines(stream)) {
    if (said.sequences) yield* ends(said, prompt, params.max_tokens ?? LENGTH);
    else yield { index: said.index, text: said.text };
  }
}

/** Sequences go on until the last one has ended: what is shorter than was asked for has ended by itself. */
function* ends({ sequences, used_prompt, generated_tokens_count }, prompt, length) {
  const unstopped = generated_tokens_count < length ? "stop" : "length";
  for (const [index, { generated_text, stop_string_match, trimmed_tail }] of sequences.entries()) {
    const reason = stop_string_match ? "stop" : unstopped;
    yield { index, reason, stop: stop_string_match, tail: trimmed_tail, text: generated_text };
  }
  yield { cut: { preamble: 0, prompt: prompt.length - used_prompt.length } };
}

export const neodim = {
  name: "Neodim",
  modes: ["text"],
  fields: FIELDS,
  forms: [],
  several: true,
  request,
  read,
};
