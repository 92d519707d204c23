/** Asking the server: where it is, the key, and its refusals in plain words. Knows no dialect. */

const UNREACHED = "The server did not answer. Is it still running, and reachable from here?";

/** What the server would not do. `status` is 0 where it could not be reached. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Paths are told from the page's own place, so that it works behind a prefix too. */
const address = (path) => new URL(`.${path}`, document.baseURI);

/** The response, if it is one of success; else Refused. An abort stays an AbortError. */
export async function ask(path, { body, key, signal } = {}) {
  const headers = { Accept: "application/x-ndjson, text/event-stream, application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body) headers["Content-Type"] = "application/json";
  const method = body ? "POST" : "GET";
  const response = await fetch(address(path), {
    method,
    headers,
    signal,
    body: body && JSON.stringify(body),
  }).catch((error) => {
    throw error.name === "AbortError" ? error : new Refused(0, UNREACHED);
  });
  if (!response.ok) throw new Refused(response.status, await reason(response));
  return response;
}

async function reason(response) {
  const text = await response.text();
  try {
    return told(JSON.parse(text)) ?? text;
  } catch {
    return text || response.statusText || "no reason was given";
  }
}

/** The message of an error's body or of a stream's last words, in any dialect; undefined: it is none. */
export function told(body) {
  if (typeof body?.error === "string") return body.error;
  return body?.error?.message ?? body?.error?.detail?.message;
}
