/**
 * The dialects by name. Each one is an object of
 *
 * name      as it is shown
 * modes     what it can be sent: "text", "chat"
 * fields    the parameters it has, and what it calls them
 * forms     the forms an answer can be bound to, besides free text
 * several   one request can bring several answers
 * request   (asked, streamed) → {path, body}
 * read      (a response's byte stream, asked) → events, one at a time:
 *             {index, text, logprob, top, special}            a token; top: [{text, logprob}]
 *             {index, reason, stop, tail, seed}               its end; tail: what came behind the stop string
 *             {cut: {preamble, prompt}}                       characters that were cut off their beginnings
 */

import { llamaStack } from "./llama_stack.js";
import { neodim } from "./neodim.js";
import { openai } from "./openai.js";
import { tgi } from "./tgi.js";

export const DIALECTS = { llama_stack: llamaStack, openai, tgi, neodim };
