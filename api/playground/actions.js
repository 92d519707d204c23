/** What the buttons do: generate, stop, retry, undo and more. Knows no DOM element. */

import { appendSelected, isCurrent } from "./completions.js";
import { Comparison } from "./comparison.js";
import { DIALECTS } from "./dialects/index.js";
import { Generation } from "./generation.js";
import { comparedModels } from "./models.js";
import { buildRequest, endsWithAssistant, withModels, withSeed, withoutSystemMessage } from "./request.js";
import { RequestError } from "./server.js";

const UNDOABLE = [
  "mode",
  "preamble",
  "system",
  "prompt",
  "turns",
  "draft",
  "completions",
  "selected",
  "source",
];
const EMPTY = { prompt: "", turns: [], draft: "", completions: [], selected: 0 };
const IDLE = { error: null, generation: null };
const MAX_HISTORY = 100;
const NO_CONTINUATION = "in this dialect the model does not go on with an answer";

export class Actions {
  #store;
  #frameRequest = 0;

  constructor(store) {
    this.#store = store;
  }

  /**
   * Continue: append the selected completion to the prompt, or the draft to the conversation. Completions of
   * a prompt that has been edited since are discarded.
   */
  async generate() {
    if (this.#store.state.running) return;
    const before = this.#snapshot();
    const { state } = this.#store;
    this.#store.set(isCurrent(state) ? appendSelected(state) : { completions: [], selected: 0 });
    await this.#start(before);
  }

  /** Discard the completions and repeat the request. */
  async retry() {
    const { running, turns, draft } = this.#store.state;
    if (running) return;
    const before = this.#snapshot();
    if (turns.length) this.#store.set({ draft: "" }); // the draft is not part of the repeated request
    await this.#start(before);
    if (turns.length) this.#store.set({ draft });
  }

  stop() {
    this.#store.state.generation?.stop();
  }

  undo() {
    const { history } = this.#store.state;
    this.stop();
    if (history.length)
      this.#store.set({ ...IDLE, running: false, ...history.at(-1), history: history.slice(0, -1) });
  }

  /** Append the selected completion to the prompt or the conversation, where it can be edited. */
  accept() {
    this.#pushHistory(this.#snapshot());
    this.#store.set({ ...IDLE, ...appendSelected(this.#store.state) });
  }

  clear() {
    this.stop();
    this.#pushHistory(this.#snapshot());
    this.#store.set({ ...IDLE, running: false, ...EMPTY });
  }

  switchTo(mode) {
    this.stop();
    if (this.#store.state.completions.length) this.accept();
    const { dialect } = this.#store.state;
    const isSupported = DIALECTS[dialect].modes.includes(mode);
    this.#store.set({ ...IDLE, running: false, mode, dialect: isSupported ? dialect : "openai" });
  }

  #snapshot() {
    return Object.fromEntries(UNDOABLE.map((name) => [name, this.#store.state[name]]));
  }

  #pushHistory(snapshot) {
    this.#store.set({ history: [...this.#store.state.history, snapshot].slice(-MAX_HISTORY) });
  }

  /** Start a generation. If its request is impossible, restore `before` and show the error. */
  async #start(before) {
    const store = this.#store;
    let generation;
    try {
      generation = prepareGeneration(store.state);
    } catch (error) {
      store.set({ ...before, error });
      return;
    }
    this.#pushHistory(before);
    if (store.state.mode === "chat") {
      store.set({ turns: withoutSystemMessage(generation.request), draft: "" });
    }
    const { mode, prompt, turns } = store.state;
    const source = mode === "chat" ? turns : prompt;
    const { completions } = generation;
    store.set({ completions, selected: 0, running: true, error: null, generation, source });
    await this.#follow(generation);
  }

  async #follow(generation) {
    const store = this.#store;
    const isLatest = () => store.state.generation === generation;
    const update = () => {
      this.#frameRequest = 0;
      if (!isLatest()) return;
      const { completions, truncated } = generation;
      store.set({ completions: [...completions], truncated: truncated ?? store.state.truncated });
    };
    let error = null;
    try {
      // At most one update for each frame that the browser paints.
      await generation.run(store.state.key, () => (this.#frameRequest ||= requestAnimationFrame(update)));
    } catch (caught) {
      error = caught;
    }
    if (error) generation.completions = generation.completions.filter(({ text }) => text);
    update();
    if (isLatest()) store.set({ running: false, error });
  }
}

/**
 * A Generation, or a Comparison whose columns have the same seed. Throws RequestError or SyntaxError if the
 * request is impossible, before the state changes.
 */
function prepareGeneration(state) {
  const request = buildRequest(state);
  const dialect = DIALECTS[state.dialect];
  const isChat = request.mode === "chat";
  if (!(isChat ? withoutSystemMessage(request).length : request.preamble + request.prompt)) {
    throw new RequestError(0, isChat ? "Write a message first." : "Write a prompt first.");
  }
  if (isChat && endsWithAssistant(request) && !dialect.supportsContinuation)
    throw new RequestError(0, `Write a message first: ${NO_CONTINUATION}.`);
  dialect.serialize(request, true);
  const generations = withModels(withSeed(request), comparedModels(state)).map(
    (each) => new Generation(dialect, each),
  );
  return generations.length > 1 ? new Comparison(generations) : generations[0];
}
