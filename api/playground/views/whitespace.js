/** Text with visible signs for whitespace characters, and for the empty string. */

const SIGNS = { "\n": "↵", "\t": "⇥", "\r": "␍", " ": "·" };

export const showWhitespace = (text) =>
  text.replaceAll(/[\n\t\r ]/g, (character) => SIGNS[character]) || "∅";
