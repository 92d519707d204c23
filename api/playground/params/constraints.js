/** Constraints on the output: words, tokens, bias and response format. ../params.js explains the keys. */

import { STRING_LIST, TOGGLE, TOKEN_IDS } from "./presets.js";

export const CONSTRAINTS = {
  bad_words: {
    ...STRING_LIST,
    label: "Words never used",
    help: "None of these comes up in the answer. One a line.",
  },
  bad_words_at_start: {
    ...STRING_LIST,
    label: "Words never first",
    help: "The answer does not begin with these. One a line.",
  },
  allowed_words: {
    ...STRING_LIST,
    label: "Only these words",
    help: "The answer is made of these words' tokens. One a line.",
  },
  allowed_token_ids: { ...TOKEN_IDS, label: "Only these tokens", help: "Ids of all tokens that may come." },
  logit_bias: {
    ...STRING_LIST,
    label: "Bias",
    help: "Make tokens more or less likely: id: value, one a line, −100 to 100.",
  },
  watermark: {
    ...TOGGLE,
    label: "Watermark",
    help: "Favour half of the vocabulary, a new half for each token: the text can be recognised later.",
  },
  response_format: {
    kind: "choice",
    label: "Form",
    initial: "free",
    neutral: "free",
    options: {
      free: "free text",
      json: "any JSON",
      schema: "JSON schema",
      regex: "pattern",
      choice: "one of these lines",
      grammar: "grammar",
    },
    help: "What the answer must look like.",
  },
  format_spec: {
    kind: "text",
    label: "Schema, pattern, lines or grammar",
    initial: "",
    neutral: "",
    visibleIf: (params) => !["free", "json"].includes(params.response_format),
    help: "What the form asks for.",
  },
};
