/** A generation's completions, accumulated from a dialect's events. Knows no dialect and no DOM element. */

/**
 * @typedef {object} Completion
 * @property {{text: string, logprob?: number, top?: object[], special?: boolean}[]} tokens
 * @property {string} text
 * @property {string} reasoning         what the model thought, where the server has it apart from the text
 * @property {""|"stop"|"length"|"aborted"|"failed"} finishReason  "" while the completion is streaming
 * @property {string|number|null} stop  the stop string or token that ended the completion
 * @property {string} tail              the text generated after the stop string
 * @property {number|null} seed         the seed that reproduces the completion; null: sampling is greedy
 */

/** @returns {Completion} */
export const newCompletion = (seed) => ({
  tokens: [],
  text: "",
  reasoning: "",
  finishReason: "",
  stop: null,
  tail: "",
  seed,
});

/** Apply a token or finish event to the completion with its index. */
export function applyEvent(completions, event) {
  const completion = completions[event.index];
  if (event.finishReason) {
    Object.assign(completion, finishFields(event));
    if (event.text !== undefined) truncateTo(completion, event.text);
  } else {
    const { reasoning = "", ...rest } = event;
    const token = rest.special ? { ...rest, text: "" } : rest;
    completion.reasoning += reasoning;
    if (token.text || !reasoning) completion.tokens.push(token);
    completion.text += token.text;
  }
}

const finishFields = ({ finishReason, stop, tail }) => ({
  finishReason,
  stop: stop ?? null,
  tail: tail ?? "",
});

/** Truncate to the text before the stop string, if the server also streamed text after it. */
function truncateTo(completion, text) {
  let remaining = text.length;
  completion.text = text;
  completion.tokens = completion.tokens
    .map((token) => {
      const prefix = token.text.slice(0, remaining);
      remaining -= prefix.length;
      return { ...token, text: prefix };
    })
    .filter(({ text }) => text);
}

/** Set the finish reason of the completions that have none. */
export function finishAll(completions, finishReason) {
  for (const completion of completions) completion.finishReason ||= finishReason;
}

/** Whether the completions still belong to the current prompt or conversation. */
export const isCurrent = ({ mode, prompt, turns, draft, source }) =>
  mode === "text" ? source === prompt : source === turns || draft.trim() !== "";

/** State changes that append the selected completion to the prompt or the conversation. */
export function appendSelected(state) {
  const { mode, prompt, turns, completions, selected } = state;
  const text = completions[selected]?.text ?? "";
  const cleared = { completions: [], selected: 0 };
  if (!text) return cleared;
  return mode === "text"
    ? { prompt: prompt + text, ...cleared }
    : { turns: appendToTurns(turns, text), ...cleared };
}

/** A completion that continued an assistant message is appended to that message. */
function appendToTurns(turns, text) {
  const last = turns.at(-1);
  if (last?.role !== "assistant") return [...turns, { role: "assistant", content: text }];
  return [...turns.slice(0, -1), { ...last, content: last.content + text }];
}
