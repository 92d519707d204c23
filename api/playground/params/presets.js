/** Keys that several parameters share; a parameter spreads one preset and may override its keys. */

export const STRING_LIST = { kind: "lines", initial: [], neutral: [] };
export const TOKEN_IDS = { kind: "numbers", initial: [], neutral: [] };
export const TOGGLE = { kind: "toggle", initial: false, neutral: false };
export const COUNT = { kind: "integer", initial: null, neutral: null, min: 0 };
export const FRACTION = { kind: "number", min: 0, max: 1, step: 0.01 };
