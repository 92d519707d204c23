/** Sampling parameters: temperature, the filters and the seed. ../params.js explains the keys. */

import { COUNT, FRACTION, STRING_LIST } from "./presets.js";

export const SAMPLING = {
  temperature: {
    kind: "number",
    label: "Temperature",
    initial: 0.7,
    neutral: null,
    min: 0,
    max: 2,
    step: 0.05,
    help: "Low is predictable, high is surprising. 0 always takes the most probable token.",
  },
  top_p: {
    ...FRACTION,
    label: "Top p",
    initial: 1,
    neutral: 1,
    help: "Choose only among the likeliest tokens that together hold this share of probability. 1 is off.",
  },
  top_k: {
    kind: "integer",
    label: "Top k",
    initial: 0,
    neutral: 0,
    min: 0,
    max: 200,
    step: 1,
    help: "Choose only among this many of the likeliest tokens. 0 is off.",
  },
  min_p: {
    ...FRACTION,
    label: "Min p",
    initial: 0,
    neutral: 0,
    help: "Drop tokens less likely than this share of the likeliest one. 0 is off.",
  },
  typical_p: {
    ...FRACTION,
    label: "Typical p",
    initial: 1,
    neutral: 1,
    help: "Prefer tokens about as surprising as is to be expected here. 1 is off.",
  },
  tfs: {
    ...FRACTION,
    label: "Tail-free sampling",
    initial: 0,
    neutral: 0,
    help: "Cut the tail where probabilities stop falling steeply. 0 is off.",
  },
  top_a: {
    ...FRACTION,
    label: "Top a",
    initial: 0,
    neutral: 0,
    help: "Drop tokens below this times the square of the likeliest. 0 is off.",
  },
  penalty_alpha: {
    ...FRACTION,
    label: "Contrast",
    initial: 0,
    neutral: 0,
    help: "Contrastive search among the top k: how much unlikeness weighs. Needs a top k above 1. 0 is off.",
  },
  warpers_order: {
    ...STRING_LIST,
    label: "Order",
    help: "In which order the above apply, one name a line; * stands for all others.",
  },
  seed: {
    ...COUNT,
    label: "Seed",
    min: undefined,
    help: "The same seed gives the same answer. Empty draws a new one each time.",
  },
};
