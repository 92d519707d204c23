/** What decides between the tokens that could come next. The words of a row: ../params.js. */

import { many, whole, share } from "./kinds.js";

export const CHANCE = {
  temperature: {
    kind: "number",
    label: "Temperature",
    start: 0.7,
    neutral: null,
    min: 0,
    max: 2,
    step: 0.05,
    says: "Low is predictable, high is surprising. 0 always takes the most probable token.",
  },
  top_p: {
    ...share,
    label: "Top p",
    start: 1,
    neutral: 1,
    says: "Choose only among the likeliest tokens that together hold this share of probability. 1 is off.",
  },
  top_k: {
    kind: "integer",
    label: "Top k",
    start: 0,
    neutral: 0,
    min: 0,
    max: 200,
    step: 1,
    says: "Choose only among this many of the likeliest tokens. 0 is off.",
  },
  min_p: {
    ...share,
    label: "Min p",
    start: 0,
    neutral: 0,
    says: "Drop tokens less likely than this share of the likeliest one. 0 is off.",
  },
  typical_p: {
    ...share,
    label: "Typical p",
    start: 1,
    neutral: 1,
    says: "Prefer tokens about as surprising as is to be expected here. 1 is off.",
  },
  tfs: {
    ...share,
    label: "Tail-free sampling",
    start: 0,
    neutral: 0,
    says: "Cut the tail where probabilities stop falling steeply. 0 is off.",
  },
  top_a: {
    ...share,
    label: "Top a",
    start: 0,
    neutral: 0,
    says: "Drop tokens below this times the square of the likeliest. 0 is off.",
  },
  contrast: {
    ...share,
    label: "Contrast",
    start: 0,
    neutral: 0,
    says: "Contrastive search among the top k: how much unlikeness weighs. Needs a top k above 1. 0 is off.",
  },
  order: {
    ...many,
    label: "Order",
    says: "In which order the above apply, one name a line; * stands for all others.",
  },
  seed: {
    ...whole,
    label: "Seed",
    min: undefined,
    says: "The same seed gives the same answer. Empty draws a new one each time.",
  },
};
