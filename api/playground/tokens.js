/** Counts the prompt's tokens and predicts how many characters are truncated. Knows no DOM element. */

import { buildRequest } from "./request.js";
import { callServer } from "./server.js";

export const NOT_TRUNCATED = { preamble: 0, prompt: 0 };
const DEBOUNCE_MS = 300;
const INPUTS = [
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

/** Count when the request changes, shortly after the last keystroke. */
export function countTokens(store) {
  let timer = 0;
  let abortController = new AbortController();
  store.subscribe(INPUTS, (state) => {
    clearTimeout(timer);
    abortController.abort();
    abortController = new AbortController();
    if (state.model) timer = setTimeout(count, DEBOUNCE_MS, store, abortController.signal);
  });
}

async function count(store, signal) {
  const request = buildRequest(store.state);
  const { key, dialect } = store.state;
  try {
    const response = await callServer("/tokenize", { body: tokenizeBody(request), key, signal });
    store.set(tokenCounts(await response.json(), request, dialect));
  } catch (error) {
    if (error.name !== "AbortError") store.set({ promptTokens: null, truncated: NOT_TRUNCATED });
  }
}

/** TGI's form of the request returns a text's tokens with offsets; vLLM's returns a conversation's count. */
const tokenizeBody = ({ mode, model, messages, preamble, prompt }) =>
  mode === "chat" ? { model, messages } : { inputs: preamble + prompt };

function tokenCounts(result, request, dialect) {
  if (!Array.isArray(result)) return { promptTokens: result.count, truncated: NOT_TRUNCATED };
  const tokens = toUtf16Offsets(result, request.preamble + request.prompt);
  return { promptTokens: result.length, truncated: truncatedCharacters(tokens, request, dialect) };
}

/** The server's offsets count code points; JavaScript strings count UTF-16 units: two for most emoji. */
function toUtf16Offsets(tokens, text) {
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return tokens.map(({ start, stop }) => ({ start: offsets[start], stop: offsets[stop] }));
}

/** Characters truncated at the start. Neodim always truncates to fit, and never truncates the preamble. */
function truncatedCharacters(tokens, { params, preamble, context }, dialect) {
  const keepsPreamble = dialect === "neodim";
  const numPreamble = keepsPreamble ? tokens.filter(({ stop }) => stop <= preamble.length).length : 0;
  const limit = keepsPreamble ? context - (params.max_tokens ?? 0) : Infinity;
  const numPrompt = Math.max(0, Math.min(params.truncate ?? Infinity, limit) - numPreamble);
  const first = tokens.length - numPrompt;
  if (first <= numPreamble) return NOT_TRUNCATED;
  const end = first < tokens.length ? tokens[first].start : tokens.at(-1).stop;
  const begin = keepsPreamble ? preamble.length : Math.min(end, preamble.length);
  return { preamble: keepsPreamble ? 0 : begin, prompt: end - begin };
}
