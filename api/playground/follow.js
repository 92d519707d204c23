/** One run: as many requests as its answers need, and their events as they come. Knows no element. */

import { blank, end, fold } from "./answers.js";
import { alone } from "./asked.js";
import { ask } from "./server.js";

/** Times in milliseconds, 0 until they are. */
export class Following {
  began = performance.now();
  first = 0;
  ended = 0;
  tokens = 0;
  cut = null;
  #halt = new AbortController();

  constructor(dialect, request) {
    this.dialect = dialect;
    this.request = request;
    const { n, seed } = request.params;
    this.answers = Array.from({ length: n ?? 1 }, (_, index) => blank(seed === null ? null : seed + index));
  }

  stop() {
    this.#halt.abort();
  }

  /** Ends with the last answer, when stopped, or with what went wrong: then no answer goes on. */
  async run(key, show) {
    const { request, dialect, answers } = this;
    const requests = dialect.several ? [request] : answers.map((_, index) => alone(request, index));
    const reads = requests.map((each, index) => this.#read(each, index, key, show));
    try {
      await Promise.all(reads);
    } catch (error) {
      this.stop();
      await Promise.allSettled(reads);
      end(answers, error.name === "AbortError" ? "stopped" : "broken");
      if (error.name !== "AbortError") throw error;
    } finally {
      end(answers, "stopped");
      this.ended = performance.now();
    }
  }

  async #read(request, offset, key, show) {
    const { path, body } = this.dialect.request(request, true);
    const response = await ask(path, { body, key, signal: this.#halt.signal });
    for await (const event of this.dialect.read(response.body, request)) {
      this.#take(event, offset);
      show();
    }
  }

  #take(event, offset) {
    if (event.index === undefined) {
      this.cut = event.cut ?? this.cut;
      return;
    }
    this.first ||= performance.now();
    this.tokens += event.reason ? 0 : 1;
    fold(this.answers, { ...event, index: event.index + offset });
  }

  /** Tokens a second, of all answers together, the wait for the first one included. */
  get rate() {
    return (this.tokens * 1000) / ((this.ended || performance.now()) - this.began);
  }
}
