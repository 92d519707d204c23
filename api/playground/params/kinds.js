/** What the parameters of one kind have in common; the parameter itself says the rest. */

export const many = { kind: "lines", start: [], neutral: [] };
export const ids = { kind: "numbers", start: [], neutral: [] };
export const off = { kind: "toggle", start: false, neutral: false };
export const whole = { kind: "integer", start: null, neutral: null, min: 0 };
export const share = { kind: "number", min: 0, max: 1, step: 0.01 };
