/** Neodim: /generate, streamed as a line of JSON per token, then one line with the whole response. */

import { activeParams } from "../params.js";
import { jsonLines } from "../streams.js";

const DEFAULT_MAX_TOKENS = 128; // the protocol has no default

const FIELDS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  typical_p: "typical",
  tfs: "tfs",
  top_a: "top_a",
  penalty_alpha: "penalty_alpha",
  warpers_order: "warpers_order",
  seed: "seed",
  max_tokens: "generated_tokens_count",
  stop: "stop_strings",
  stop_regex: "stop_strings_type",
  stop_matches: "stop_strings_required_matches_count",
  ignore_eos: "can_stop_early",
  truncate: "max_total_tokens",
  truncate_until: "truncate_prompt_until",
  repetition_penalty: "repetition_penalty",
  no_repeat_ngram: "no_repeat_ngram_size",
  penalty_range: "repetition_penalty_range",
  penalty_slope: "repetition_penalty_slope",
  penalty_generated: "repetition_penalty_include_generated",
  penalty_preamble: "repetition_penalty_include_preamble",
  penalty_clamp: "repetition_penalty_truncate_to_input",
  penalty_text: "repetition_penalty_prompt",
  bad_words: "words_blacklist",
  bad_words_at_start: "words_blacklist_at_start",
  allowed_words: "words_whitelist",
  n: "sequences_count",
};
const SERIALIZERS = {
  stop_regex: () => ({ stop_strings_type: "regex" }),
  ignore_eos: () => ({}),
  truncate: () => ({}),
};

function serialize({ preamble, prompt, params, context, adapter }, stream) {
  const maxTokens = params.max_tokens ?? DEFAULT_MAX_TOKENS;
  const body = {
    preamble,
    prompt,
    generated_tokens_count: maxTokens,
    max_total_tokens: params.truncate === null ? context : Math.min(context, params.truncate + maxTokens),
    can_stop_early: !params.ignore_eos,
  };
  if (adapter) body.adapter = adapter;
  for (const [name, value] of Object.entries(activeParams(params, FIELDS))) {
    Object.assign(body, SERIALIZERS[name]?.() ?? { [FIELDS[name]]: value });
  }
  if (params.temperature === 0) body.top_k = 1; // Neodim reads a temperature of 0 as 1
  return { path: "/generate", body: stream ? { ...body, stream: true } : body };
}

async function* readEvents(stream, { prompt, params }) {
  for await (const line of jsonLines(stream)) {
    if (line.sequences) yield* finishEvents(line, prompt, params.max_tokens ?? DEFAULT_MAX_TOKENS);
    else yield { index: line.index, text: line.text };
  }
}

/** The response has no finish reason: without a stop string, fewer tokens than the limit mean EOS. */
function* finishEvents({ sequences, used_prompt, generated_tokens_count }, prompt, maxTokens) {
  const otherReason = generated_tokens_count < maxTokens ? "stop" : "length";
  for (const [index, { generated_text, stop_string_match, trimmed_tail }] of sequences.entries()) {
    const finishReason = stop_string_match ? "stop" : otherReason;
    yield { index, finishReason, stop: stop_string_match, tail: trimmed_tail, text: generated_text };
  }
  yield { truncated: { preamble: 0, prompt: prompt.length - used_prompt.length } };
}

export const neodim = {
  name: "Neodim",
  modes: ["text"],
  fields: FIELDS,
  formats: [],
  supportsN: true,
  supportsContinuation: false,
  serialize,
  readEvents,
};
