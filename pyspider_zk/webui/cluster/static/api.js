// Requests to the API, which is all that the pages know.

const BASE = "/api/v1";
const READ_TIMEOUT = 15000; // milliseconds
const WRITE_TIMEOUT = 120000; // the browser may prompt for the password meanwhile
const SELDOM = 60000; // milliseconds

// Who has a session logs in at a page: its end must not make the browser prompt for a password, at each read anew.
const READ_HEADERS = "hasSession" in document.documentElement.dataset ? { "X-Requested-With": "fetch" } : {};

/** An error that the API returned; the message is for people, `fields` says what is wrong by field. */
export class Problem extends Error {
  constructor(status, detail, fields = {}) {
    super(detail);
    this.status = status;
    this.fields = fields;
  }
}

const ahead = Number(document.documentElement.dataset.now) - Date.now() / 1000; // of the browser's clock, in seconds

/** Tell whether what was asked for may have been done all the same; the API says 503 also if a write got no answer. */
export const isUnclear = ({ status }) => status < 400 || status >= 500;

/** The milliseconds until the next of reads that follow one another: more after each that came too late, for the web UI may still be at it. */
export const pace = (wait, every, fault) => (fault?.isSlow ? Math.max(every, Math.min(2 * wait, SELDOM)) : every);

/** The time by the clock of the web UI, seconds since the epoch; the browser's may be wrong. */
export const now = () => Date.now() / 1000 + ahead;

/** Send a request; return the response's body, or throw a Problem. */
export async function ask(path, { method = "GET", query = {}, body } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const [timeout, headers] = method === "GET" ? [READ_TIMEOUT, READ_HEADERS] : [WRITE_TIMEOUT, {}];
  const request = { method, signal: AbortSignal.timeout(timeout), headers: { ...headers } };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(`${BASE}${path}${search}`, request);
  } catch (error) {
    const isSlow = error.name === "TimeoutError";
    throw Object.assign(new Problem(0, isSlow ? "the web UI does not answer in time" : "the web UI itself does not answer"), { isSlow });
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Problem(response.status, answer?.detail ?? `the web UI returned ${response.status}`, answer?.errors?.json);
  if (answer === null) throw new Problem(response.status, "the response was cut off, or is not the web UI's");
  return answer;
}

export const post = (path, body) => ask(path, { method: "POST", body });

/** An id that makes a request repeatable; crypto.randomUUID works with HTTPS only. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
