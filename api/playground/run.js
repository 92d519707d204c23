/** What the buttons do: generate, stop, retry, and back to how it was. Knows no element. */

import { settled, stands } from "./answers.js";
import { asked, isAnswerTo, seeded, spoken } from "./asked.js";
import { DIALECTS } from "./dialects/index.js";
import { Following } from "./follow.js";
import { Refused } from "./server.js";

const UNDONE = ["mode", "preamble", "system", "prompt", "turns", "draft", "answers", "picked", "source"];
const EMPTY = { prompt: "", turns: [], draft: "", answers: [], picked: 0 };
const QUIET = { error: null, following: null };
const DEPTH = 100;
const NO_MORE = "in this dialect the model does not go on with an answer";

export class Run {
  #store;
  #due = 0;

  constructor(store) {
    this.#store = store;
  }

  /**
   * Go on: the picked answer becomes part of the document, the message a part of the conversation. An answer
   * to what has been rewritten since is left behind.
   */
  async generate() {
    if (this.#store.state.running) return;
    const before = this.#now();
    const { state } = this.#store;
    this.#store.set(stands(state) ? settled(state) : { answers: [], picked: 0 });
    await this.#start(before);
  }

  /** Throw the answers away and ask for the same again. */
  async retry() {
    const { running, turns, draft } = this.#store.state;
    if (running) return;
    const before = this.#now();
    if (turns.length) this.#store.set({ draft: "" }); // it comes after what is asked again
    await this.#start(before);
    if (turns.length) this.#store.set({ draft });
  }

  stop() {
    this.#store.state.following?.stop();
  }

  undo() {
    const { past } = this.#store.state;
    this.stop();
    if (past.length) this.#store.set({ ...QUIET, running: false, ...past.at(-1), past: past.slice(0, -1) });
  }

  /** Make the picked answer part of the document, to be edited. */
  settle() {
    this.#keep(this.#now());
    this.#store.set({ ...QUIET, ...settled(this.#store.state) });
  }

  clear() {
    this.stop();
    this.#keep(this.#now());
    this.#store.set({ ...QUIET, running: false, ...EMPTY });
  }

  switchTo(mode) {
    this.stop();
    if (this.#store.state.answers.length) this.settle();
    const { dialect } = this.#store.state;
    const speaks = DIALECTS[dialect].modes.includes(mode);
    this.#store.set({ ...QUIET, running: false, mode, dialect: speaks ? dialect : "openai" });
  }

  #now() {
    return Object.fromEntries(UNDONE.map((name) => [name, this.#store.state[name]]));
  }

  #keep(before) {
    this.#store.set({ past: [...this.#store.state.past, before].slice(-DEPTH) });
  }

  async #start(before) {
    const store = this.#store;
    let following;
    try {
      following = prepared(store.state);
    } catch (error) {
      store.set({ ...before, error });
      return;
    }
    this.#keep(before);
    if (store.state.mode === "chat") store.set({ turns: spoken(following.request), draft: "" });
    const { mode, prompt, turns } = store.state;
    const source = mode === "chat" ? turns : prompt;
    store.set({ answers: following.answers, picked: 0, running: true, error: null, following, source });
    await this.#follow(following);
  }

  async #follow(following) {
    const store = this.#store;
    const isOurs = () => store.state.following === following;
    const show = () => {
      this.#due = 0;
      if (isOurs()) store.set({ answers: [...following.answers], cut: following.cut ?? store.state.cut });
    };
    let error = null;
    try {
      // At most once for each picture that the browser draws.
      await following.run(store.state.key, () => (this.#due ||= requestAnimationFrame(show)));
    } catch (caught) {
      error = caught;
    }
    if (error) following.answers = following.answers.filter(({ text }) => text);
    show();
    if (isOurs()) store.set({ running: false, error });
  }
}

/** What cannot be asked is told before anything changes. */
function prepared(state) {
  const request = asked(state);
  const dialect = DIALECTS[state.dialect];
  const chat = request.mode === "chat";
  if (!(chat ? spoken(request).length : request.preamble + request.prompt)) {
    throw new Refused(0, chat ? "Write a message first." : "Write a prompt first.");
  }
  if (chat && isAnswerTo(request) && !dialect.continues)
    throw new Refused(0, `Write a message first: ${NO_MORE}.`);
  dialect.request(request, true);
  return new Following(dialect, seeded(request));
}
