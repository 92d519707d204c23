/** What the page asks for, in no dialect: the text or the conversation, and the parameters. */

/**
 * @typedef {object} Asked
 * @property {"text"|"chat"} mode
 * @property {string} model
 * @property {string} preamble  stands before the prompt, or is a conversation's system message
 * @property {string} prompt
 * @property {{role: string, content: string}[]} messages
 * @property {object} params    see params.js
 * @property {number} context   tokens the model can hold
 */

/** @returns {Asked} */
export function asked(state) {
  const { mode, preamble, prompt, system, params, model } = state;
  const messages = system.trim() ? [{ role: "system", content: system }, ...turns(state)] : turns(state);
  return {
    mode,
    model: model?.id ?? "",
    preamble,
    prompt,
    messages,
    params,
    context: model?.context ?? 2048,
  };
}

/** The conversation, with the message that is about to be sent. */
const turns = ({ turns, draft }) => (draft.trim() ? [...turns, { role: "user", content: draft }] : turns);

/** The same with a seed, so that its answers can be had again. The likeliest tokens need none. */
export function seeded(request) {
  const { seed, temperature } = request.params;
  const drawn = temperature === 0 ? null : (seed ?? Math.floor(Math.random() * 2 ** 32));
  return { ...request, params: { ...request.params, seed: drawn } };
}

/** The same for one of several answers, as each is asked for by itself: its seed follows the first one's. */
export function alone(request, index) {
  const { seed } = request.params;
  const own = seed === null ? null : seed + index;
  return { ...request, params: { ...request.params, n: 1, seed: own } };
}

export const isAnswerTo = ({ messages }) => messages.at(-1)?.role === "assistant";

/** The conversation without its system message, which has a place of its own. */
export const spoken = ({ messages }) => messages.filter(({ role }) => role !== "system");
