/** What the page starts with, and what of it is kept from one visit to the next. */

import { DIALECTS } from "./dialects/index.js";
import { starts } from "./params.js";
import { UNCUT } from "./tokens.js";

const KEPT = ["mode", "dialect", "theme", "preamble", "prompt", "system", "turns", "draft", "params"];
const PLACE = "hearth.playground";
const KEY_PLACE = "hearth.key";

/**
 * mode      "text" or "chat"
 * turns     the conversation: {role, content}; `draft` is the message to come
 * answers   of the last run (answers.js), `picked` the one that goes on; `source` is what they are answers to
 * counted   tokens of what is to be sent; null: not known
 * cut       characters of preamble and prompt that the model will not see
 * following the last run (follow.js)
 * past      what Undo goes back to
 */
const fresh = () => ({
  mode: "text",
  dialect: "openai",
  theme: "auto",
  preamble: "",
  prompt: "The capital of France is",
  system: "",
  turns: [],
  draft: "What is the capital of France?",
  params: starts(),
  answers: [],
  picked: 0,
  source: null,
  running: false,
  error: null,
  model: null,
  counted: null,
  cut: UNCUT,
  following: null,
  past: [],
  key: "",
});

export function remembered() {
  const state = fresh();
  const kept = read(localStorage, PLACE, "{}");
  for (const name of KEPT) {
    if (typeof kept[name] === typeof state[name]) state[name] = kept[name];
  }
  state.params = { ...starts(), ...state.params };
  if (!DIALECTS[state.dialect]?.modes.includes(state.mode)) state.dialect = "openai";
  state.key = read(sessionStorage, KEY_PLACE, '""');
  return state;
}

/** Keep what changes. The key is for this tab alone, and ends with it. */
export function remember(store) {
  store.watch(KEPT, (state) => {
    const kept = Object.fromEntries(KEPT.map((name) => [name, state[name]]));
    write(localStorage, PLACE, kept);
  });
  store.watch(["key"], (state) => write(sessionStorage, KEY_PLACE, state.key));
}

function read(storage, place, otherwise) {
  try {
    return JSON.parse(storage.getItem(place) ?? otherwise);
  } catch {
    return JSON.parse(otherwise);
  }
}

/** A browser may forbid or limit what a page keeps; the page works without. */
function write(storage, place, value) {
  try {
    storage.setItem(place, JSON.stringify(value));
  } catch (error) {
    console.info("not kept:", error.name);
  }
}
