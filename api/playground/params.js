/**
 * All parameters: name in the page, control and help text. A dialect (dialects/) lists the parameters that it
 * supports, with its own field names.
 *
 * initial    value on a fresh page
 * neutral    value that has no effect; it is not sent
 * kind       number, integer, toggle, choice, text, lines (list of strings) or numbers (list of token ids)
 * help       the sentence shown below the control
 * visibleIf  function of all parameters; the control is shown only where it returns true
 */

import { CONSTRAINTS } from "./params/constraints.js";
import { LENGTH } from "./params/length.js";
import { OUTPUT } from "./params/output.js";
import { REPETITION } from "./params/repetition.js";
import { SAMPLING } from "./params/sampling.js";

/** The parameters of each section of the settings panel, by the section's title. */
export const SECTIONS = {
  Sampling: SAMPLING,
  Length: LENGTH,
  Answers: OUTPUT,
  Repetition: REPETITION,
  Constraints: CONSTRAINTS,
};
export const PARAMS = Object.assign({}, ...Object.values(SECTIONS));

export const defaultParams = () =>
  Object.fromEntries(Object.entries(PARAMS).map(([name, { initial }]) => [name, initial]));

/** The parameters to send: those in a dialect's `fields` whose value is not neutral. */
export function activeParams(params, fields) {
  const active = Object.entries(params).filter(([name, value]) => name in fields && !isNeutral(name, value));
  return Object.fromEntries(active);
}

export function isNeutral(name, value) {
  const { neutral } = PARAMS[name];
  return Array.isArray(neutral) ? value.length === 0 : value === null || value === neutral;
}
