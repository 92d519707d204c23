/**
 * The dialects by name. Each one is an object of
 *
 * name      as it is shown
 * modes     what it can be sent: "text", "chat"
 * fields    the parameters it has, and what it calls them
 * forms     the forms an answer can be bound to, besides free text
 * several   one request can bring several answers
 * continues a conversation may end with an answer's beginning
 * request   (asked, streamed) → {path, body}
 * read      (a response's byte stream, asked) → events, one at a time:
 *             {index, text, logprob, top, special}            a token; top: [{text, logprob}]
 *             {index, reason, stop, tail, text}               its end; tail: what came behind the stop;
 *                                                             text: all that counts, if more was told
 *             {cut: {preamble, prompt}}                       characters that were cut off their beginnings
 */

import { llamaStack } from "./llama_stack.js";
import { neodim } from "./neodim.js";
import { openai } from "./openai.js";
import { tgi } from "./tgi.js";

export const DIALECTS = { llama_stack: llamaStack, openai, tgi, neodim };
