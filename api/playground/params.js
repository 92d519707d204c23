/**
 * Every parameter: its name here, how it is shown, and what it does. Which dialects have it, and under which
 * name, is said in dialects/.
 *
 * start    its value on a fresh page
 * neutral  the value that changes nothing: it is not sent
 * kind     number, integer, toggle, choice, text, lines (strings) or numbers (token ids)
 * needs    shown only where this holds of the parameters
 */

import { ANSWERS } from "./params/answers.js";
import { CHANCE } from "./params/chance.js";
import { LENGTH } from "./params/length.js";
import { REPETITION } from "./params/repetition.js";
import { WORDS } from "./params/words.js";

export const SECTIONS = {
  Chance: CHANCE,
  Length: LENGTH,
  Answers: ANSWERS,
  Repetition: REPETITION,
  "Words and form": WORDS,
};
export const PARAMS = Object.assign({}, ...Object.values(SECTIONS));

export const starts = () =>
  Object.fromEntries(Object.entries(PARAMS).map(([name, { start }]) => [name, start]));

/** The parameters that are not neutral, of those that `has` names. */
export function chosen(params, has) {
  const told = Object.entries(params).filter(([name, value]) => name in has && !isNeutral(name, value));
  return Object.fromEntries(told);
}

export function isNeutral(name, value) {
  const { neutral } = PARAMS[name];
  return Array.isArray(neutral) ? value.length === 0 : value === null || value === neutral;
}
