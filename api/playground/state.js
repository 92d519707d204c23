/** The page's initial state, and the part of it that the browser stores between visits. */

import { DIALECTS } from "./dialects/index.js";
import { defaultParams } from "./params.js";
import { NOT_TRUNCATED } from "./tokens.js";

const STORED = ["mode", "dialect", "theme", "preamble", "prompt", "system", "turns", "draft", "params", "compared"];
const STATE_ITEM = "hearth.playground";
const API_KEY_ITEM = "hearth.key";

/**
 * mode         "text" or "chat"
 * turns        the conversation: {role, content}; `draft` is the next user message
 * completions  of the last generation (completions.js); `selected` is the index of the one to continue with
 * source       the prompt or turns that the completions were generated for
 * models       the models and their adapters: {id, context, adapter, isDefault}: name, context length in
 *              tokens, the adapter's name, or null for the model itself, and whether requests without a model
 *              go to it
 * compared     names of the models that answer beside the chosen one
 * states       whether each model is in memory, by name: {value, detail}
 * model        the one of them that answers; null: not yet known
 * promptTokens tokens of the next request's prompt; null: not known
 * truncated    {preamble, prompt}: characters of each that the server will truncate
 * generation   the last generation (generation.js)
 * history      the states that Undo restores
 */
const initialState = () => ({
  mode: "text",
  dialect: "openai",
  theme: "auto",
  preamble: "",
  prompt: "The capital of France is",
  system: "",
  turns: [],
  draft: "What is the capital of France?",
  params: defaultParams(),
  completions: [],
  selected: 0,
  source: null,
  running: false,
  error: null,
  models: [],
  model: null,
  compared: [],
  states: {},
  promptTokens: null,
  truncated: NOT_TRUNCATED,
  generation: null,
  history: [],
  key: "",
});

export function loadState() {
  const state = initialState();
  const stored = readItem(localStorage, STATE_ITEM, "{}");
  for (const name of STORED) {
    if (typeof stored[name] === typeof state[name]) state[name] = stored[name];
  }
  state.params = { ...defaultParams(), ...state.params };
  if (!DIALECTS[state.dialect]?.modes.includes(state.mode)) state.dialect = "openai";
  state.key = readItem(sessionStorage, API_KEY_ITEM, '""');
  return state;
}

/** Store changes as they happen. The API key is stored for this tab only. */
export function persistState(store) {
  store.subscribe(STORED, (state) => {
    const stored = Object.fromEntries(STORED.map((name) => [name, state[name]]));
    writeItem(localStorage, STATE_ITEM, stored);
  });
  store.subscribe(["key"], (state) => writeItem(sessionStorage, API_KEY_ITEM, state.key));
}

function readItem(storage, name, fallback) {
  try {
    return JSON.parse(storage.getItem(name) ?? fallback);
  } catch {
    return JSON.parse(fallback);
  }
}

/** A browser may forbid or limit storage; the page works without it. */
function writeItem(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
  } catch (error) {
    console.info("state not stored:", error.name);
  }
}
