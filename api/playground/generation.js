/** One generation: sends its requests and collects the streamed events. Knows no DOM element. */

import { applyEvent, finishAll, newCompletion } from "./completions.js";
import { singleCompletionRequest } from "./request.js";
import { callServer } from "./server.js";

/**
 * startedAt, firstTokenAt, endedAt  milliseconds of performance.now(); 0 until they are known
 * numTokens                         tokens received over all completions
 * truncated                         {preamble, prompt}: characters the server truncated; null: not reported
 * error                             why a column of a comparison failed (comparison.js); null: it did not
 */
export class Generation {
  startedAt = performance.now();
  firstTokenAt = 0;
  endedAt = 0;
  numTokens = 0;
  truncated = null;
  error = null;
  #abortController = new AbortController();

  constructor(dialect, request) {
    this.dialect = dialect;
    this.request = request;
    const { n, seed } = request.params;
    this.completions = Array.from({ length: n ?? 1 }, (_, index) =>
      newCompletion(seed === null ? null : seed + index),
    );
  }

  /** A generation alone has no columns. */
  columnOf() {
    return null;
  }

  stop() {
    this.#abortController.abort();
  }

  /** Resolves after the last completion or a stop. An error finishes all completions and is thrown. */
  async run(key, onChange) {
    const { request, dialect, completions } = this;
    const requests = dialect.supportsN
      ? [request]
      : completions.map((_, index) => singleCompletionRequest(request, index));
    const streams = requests.map((each, index) => this.#stream(each, index, key, onChange));
    try {
      await Promise.all(streams);
    } catch (error) {
      this.stop();
      await Promise.allSettled(streams);
      finishAll(completions, error.name === "AbortError" ? "aborted" : "failed");
      if (error.name !== "AbortError") throw error;
    } finally {
      finishAll(completions, "aborted");
      this.endedAt = performance.now();
    }
  }

  async #stream(request, indexOffset, key, onChange) {
    const { path, body } = this.dialect.serialize(request, true);
    const response = await callServer(path, { body, key, signal: this.#abortController.signal });
    for await (const event of this.dialect.readEvents(response.body, request)) {
      this.#apply(event, indexOffset);
      onChange();
    }
  }

  #apply(event, indexOffset) {
    if (event.index === undefined) {
      this.truncated = event.truncated ?? this.truncated;
      return;
    }
    this.firstTokenAt ||= performance.now();
    this.numTokens += event.finishReason ? 0 : 1;
    applyEvent(this.completions, { ...event, index: event.index + indexOffset });
  }

  /** Tokens per second over all completions, including the time to the first token. */
  get tokensPerSecond() {
    return (this.numTokens * 1000) / ((this.endedAt || performance.now()) - this.startedAt);
  }
}
