/** A text with what cannot be seen in it made visible. */

const SIGNS = { "\n": "↵", "\t": "⇥", "\r": "␍", " ": "·" };

export const visible = (text) => text.replaceAll(/[\n\t\r ]/g, (character) => SIGNS[character]) || "∅";
