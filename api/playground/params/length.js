/** Where an answer ends, and how much of the prompt is read. The words of a row: ../params.js. */

import { many, ids, off, whole } from "./kinds.js";

export const LENGTH = {
  max_tokens: {
    kind: "integer",
    label: "Longest answer",
    start: 128,
    neutral: null,
    min: 1,
    max: 1024,
    step: 1,
    says: "Tokens an answer may have. Empty leaves it to the server.",
  },
  min_tokens: {
    ...whole,
    label: "Shortest answer",
    start: 0,
    neutral: 0,
    says: "The answer does not end before it has this many tokens.",
  },
  stop: {
    ...many,
    label: "Stop strings",
    says: "The answer ends where one of these comes. One a line; \\n is a line break.",
  },
  keep_stop: {
    ...off,
    label: "Keep the stop string",
    says: "The string that ended the answer stays part of it.",
  },
  stop_regex: { ...off, label: "Stop strings are patterns", says: "Read them as regular expressions." },
  stop_matches: {
    ...whole,
    label: "Matches in a row",
    start: 1,
    neutral: 1,
    says: "How many tokens in a row a pattern must match before it counts.",
  },
  stop_tokens: {
    ...ids,
    label: "Stop tokens",
    says: "Token ids that end the answer, besides the model's own.",
  },
  ignore_eos: {
    ...off,
    label: "Ignore the model's end",
    says: "Write on when the model would end, up to the longest answer.",
  },
  truncate: {
    ...whole,
    label: "Prompt tokens kept",
    says: "Keep the last so many tokens of the prompt and cut what is before. The cut is shown in the text.",
  },
  truncate_until: {
    ...many,
    label: "Cut up to",
    says: "A cut goes on to behind the first of these: to the end of a line, say. \\n is a line break.",
  },
};
