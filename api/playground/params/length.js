/** Length parameters: limits, stop strings and prompt truncation. ../params.js explains the keys. */

import { COUNT, STRING_LIST, TOGGLE, TOKEN_IDS } from "./presets.js";

export const LENGTH = {
  max_tokens: {
    kind: "integer",
    label: "Longest answer",
    initial: 128,
    neutral: null,
    min: 1,
    max: 1024,
    step: 1,
    help: "Most tokens that an answer may have. Empty leaves it to the server.",
  },
  min_tokens: {
    ...COUNT,
    label: "Shortest answer",
    initial: 0,
    neutral: 0,
    help: "The answer does not end before it has this many tokens.",
  },
  stop: {
    ...STRING_LIST,
    label: "Stop strings",
    help: "The answer ends where one of these comes. One a line; \\n is a line break.",
  },
  include_stop: {
    ...TOGGLE,
    label: "Keep the stop string",
    help: "The string that ended the answer stays part of it.",
  },
  stop_regex: { ...TOGGLE, label: "Stop strings are patterns", help: "Read them as regular expressions." },
  stop_matches: {
    ...COUNT,
    label: "Matches in a row",
    initial: 1,
    neutral: 1,
    help: "A pattern ends the answer after matching at this many tokens in a row.",
  },
  stop_token_ids: {
    ...TOKEN_IDS,
    label: "Stop tokens",
    help: "Token ids that end the answer, in addition to the model's own.",
  },
  ignore_eos: {
    ...TOGGLE,
    label: "Ignore the model's end",
    help: "Write on when the model would end, up to the longest answer.",
  },
  truncate: {
    ...COUNT,
    label: "Prompt tokens kept",
    help: "Keep this many tokens at the end of the prompt and cut the rest. The text shows the cut.",
  },
  truncate_until: {
    ...STRING_LIST,
    label: "Cut up to",
    help: "The cut extends to the end of the first of these, such as a line break: \\n.",
  },
};
