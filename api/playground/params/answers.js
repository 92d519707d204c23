/** How many answers there are, and what is shown of them. The words of a row: ../params.js. */

import { off } from "./kinds.js";

export const ANSWERS = {
  n: {
    kind: "integer",
    label: "Answers",
    start: 1,
    neutral: 1,
    min: 1,
    max: 8,
    step: 1,
    says: "How many are written at once, to pick from.",
  },
  logprobs: {
    kind: "integer",
    label: "Alternatives",
    start: 4,
    neutral: null,
    min: 0,
    max: 5,
    step: 1,
    says: "Tint each token by how unlikely it was; point at it to see so many others. Empty is off.",
  },
  show_special: {
    ...off,
    label: "Show special tokens",
    says: "Write out the tokens that mark beginnings and ends.",
  },
};
