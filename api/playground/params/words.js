/** Which words and forms an answer may have. The words of a row: ../params.js. */

import { many, ids, off } from "./kinds.js";

export const WORDS = {
  bad_words: {
    ...many,
    label: "Words never used",
    says: "None of these comes up in the answer. One a line.",
  },
  bad_first: {
    ...many,
    label: "Words never first",
    says: "The answer does not begin with these. One a line.",
  },
  only_words: {
    ...many,
    label: "Only these words",
    says: "The answer is made of these words' tokens. One a line.",
  },
  allowed_tokens: { ...ids, label: "Only these tokens", says: "Ids of all tokens that may come." },
  bias: {
    ...many,
    label: "Bias",
    says: "Make tokens more or less likely: id: value, one a line, −100 to 100.",
  },
  watermark: {
    ...off,
    label: "Watermark",
    says: "Favour half of the vocabulary, drawn anew for each token, so that the text can be told later.",
  },
  form: {
    kind: "choice",
    label: "Form",
    start: "free",
    neutral: "free",
    options: {
      free: "free text",
      json: "any JSON",
      schema: "JSON schema",
      regex: "pattern",
      choice: "one of these lines",
      grammar: "grammar",
    },
    says: "What the answer must look like.",
  },
  spec: {
    kind: "text",
    label: "Schema, pattern, lines or grammar",
    start: "",
    neutral: "",
    needs: (params) => !["free", "json"].includes(params.form),
    says: "What the form asks for.",
  },
};
