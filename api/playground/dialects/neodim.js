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

async function* read(stream, { prompt }) {
  for await (const said of jsonLines(stream)) {
    if (said.sequences) yield* ends(said, prompt);
    else yield { index: said.index, text: said.text };
  }
}

function* ends({ sequences, used_prompt }, prompt) {
  for (const [index, { stop_string, trimmed_tail }] of sequences.entries()) {
    yield { index, reason: stop_string ? "stop" : "length", stop: stop_string, tail: trimmed_tail };
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
