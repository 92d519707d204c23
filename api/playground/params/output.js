/** Output parameters: the number of completions and what is shown of each. ../params.js explains the keys. */

import { TOGGLE } from "./presets.js";

export const OUTPUT = {
  n: {
    kind: "integer",
    label: "Answers",
    initial: 1,
    neutral: 1,
    min: 1,
    max: 8,
    step: 1,
    help: "How many are generated at once, to pick from.",
  },
  logprobs: {
    kind: "integer",
    label: "Alternatives",
    initial: 4,
    neutral: null,
    min: 0,
    max: 5,
    step: 1,
    help: "Tint each token by how unlikely it was; point at it to see this many others. Empty is off.",
  },
  show_special: {
    ...TOGGLE,
    label: "Show special tokens",
    help: "Write out the tokens that mark beginnings and ends.",
  },
};
