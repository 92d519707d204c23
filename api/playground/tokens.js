/** How many tokens the prompt has, and how much of it the model will not see. Knows no element. */

import { asked } from "./asked.js";
import { ask } from "./server.js";

export const UNCUT = { preamble: 0, prompt: 0 };
const PAUSE_MS = 300;
const COUNTED = [
  "mode",
  "dialect",
  "preamble",
  "prompt",
  "system",
  "turns",
  "draft",
  "params",
  "model",
  "key",
];

/** Count whenever what is asked changes, a little after the last key. */
export function countTokens(store) {
  let timer = 0;
  let halt = new AbortController();
  store.watch(COUNTED, (state) => {
    clearTimeout(timer);
    halt.abort();
    halt = new AbortController();
    if (state.model) timer = setTimeout(count, PAUSE_MS, store, halt.signal);
  });
}

async function count(store, signal) {
  const request = asked(store.state);
  const { key, dialect } = store.state;
  try {
    const response = await ask("/tokenize", { body: question(request), key, signal });
    store.set(counted(await response.json(), request, dialect));
  } catch (error) {
    if (error.name !== "AbortError") store.set({ counted: null, cut: UNCUT });
  }
}

/** A text's tokens are asked with their places in it; a conversation's are only counted. */
const question = ({ mode, model, messages, preamble, prompt }) =>
  mode === "chat" ? { model, messages } : { inputs: preamble + prompt };

function counted(answer, request, dialect) {
  if (!Array.isArray(answer)) return { counted: answer.count, cut: UNCUT };
  const pieces = placed(answer, request.preamble + request.prompt);
  return { counted: answer.length, cut: cut(pieces, request, dialect) };
}

/** Places are told in characters, of which JavaScript counts some, such as emoji, as two. */
function placed(pieces, text) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return pieces.map(({ start, stop }) => ({ start: places[start], stop: places[stop] }));
}

/** Characters cut off the beginning. Neodim never cuts the preamble, and cuts unasked what does not fit. */
function cut(pieces, { params, preamble, context }, dialect) {
  const spares = dialect === "neodim";
  const spared = spares ? pieces.filter(({ stop }) => stop <= preamble.length).length : 0;
  const room = spares ? context - (params.max_tokens ?? 0) : Infinity;
  const kept = Math.max(0, Math.min(params.truncate ?? Infinity, room) - spared);
  const first = pieces.length - kept;
  if (first <= spared) return UNCUT;
  const end = first < pieces.length ? pieces[first].start : pieces.at(-1).stop;
  const begin = spares ? preamble.length : Math.min(end, preamble.length);
  return { preamble: spares ? 0 : begin, prompt: end - begin };
}
