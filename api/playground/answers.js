/** One run's answers, folded from a dialect's events. Knows no dialect and no element. */

/**
 * @typedef {object} Answer
 * @property {{text: string, logprob?: number, top?: object[], special?: boolean}[]} tokens
 * @property {string} text
 * @property {""|"stop"|"length"|"stopped"|"broken"} reason  why it ended; empty while it goes on
 * @property {string|number|null} stop  the stop string or token that ended it
 * @property {string} tail              what was generated behind the stop string
 */

/** @returns {Answer} */
export const blank = () => ({ tokens: [], text: "", reason: "", stop: null, tail: "", seed: null });

/** Add a token or an end to the answer it belongs to. */
export function fold(answers, event) {
  const answer = answers[event.index];
  if (event.reason) {
    Object.assign(answer, known(event));
  } else {
    answer.tokens.push(event);
    answer.text += event.special ? "" : event.text;
  }
}

const known = ({ reason, stop, tail, seed }) => ({
  reason,
  stop: stop ?? null,
  tail: tail ?? "",
  seed: seed ?? null,
});

export function end(answers, reason) {
  for (const answer of answers) answer.reason ||= reason;
}

/** The page's document with the picked answer as a part of it. */
export function settled(state) {
  const { mode, prompt, turns, answers, picked } = state;
  const text = answers[picked]?.text ?? "";
  const none = { answers: [], picked: 0 };
  if (!text) return none;
  return mode === "text" ? { prompt: prompt + text, ...none } : { turns: said(turns, text), ...none };
}

/** An answer that went on with a message of the assistant's own belongs to that message. */
function said(turns, text) {
  const last = turns.at(-1);
  if (last?.role !== "assistant") return [...turns, { role: "assistant", content: text }];
  return [...turns.slice(0, -1), { ...last, content: last.content + text }];
}
