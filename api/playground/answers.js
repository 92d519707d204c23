/** One run's answers, folded from a dialect's events. Knows no dialect and no element. */

/**
 * @typedef {object} Answer
 * @property {{text: string, logprob?: number, top?: object[], special?: boolean}[]} tokens
 * @property {string} text
 * @property {""|"stop"|"length"|"stopped"|"broken"} reason  why it ended; empty while it goes on
 * @property {string|number|null} stop  the stop string or token that ended it
 * @property {string} tail              what was generated behind the stop string
 * @property {number|null} seed         what it can be had again by; null: chance plays no part
 */

/** @returns {Answer} */
export const blank = (seed) => ({ tokens: [], text: "", reason: "", stop: null, tail: "", seed });

/** Add a token or an end to the answer it belongs to. */
export function fold(answers, event) {
  const answer = answers[event.index];
  if (event.reason) {
    Object.assign(answer, known(event));
    if (event.text !== undefined) shorten(answer, event.text);
  } else {
    const token = event.special ? { ...event, text: "" } : event;
    answer.tokens.push(token);
    answer.text += token.text;
  }
}

const known = ({ reason, stop, tail }) => ({ reason, stop: stop ?? null, tail: tail ?? "" });

/** To the beginning that counts, where what came behind a stop string was told, too. */
function shorten(answer, text) {
  let room = text.length;
  answer.text = text;
  answer.tokens = answer.tokens
    .map((token) => {
      const kept = token.text.slice(0, room);
      room -= kept.length;
      return { ...token, text: kept };
    })
    .filter(({ text }) => text);
}

export function end(answers, reason) {
  for (const answer of answers) answer.reason ||= reason;
}

/** Whether the answers still are answers to what is written. */
export const stands = ({ mode, prompt, turns, draft, source }) =>
  mode === "text" ? source === prompt : source === turns || draft.trim() !== "";

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
