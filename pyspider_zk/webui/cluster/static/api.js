// Asking the API. The pages know nothing that it does not tell.

const BASE = "/api/v1";
const TO_LOOK = 15000; // milliseconds
const TO_CHANGE = 120000; // the browser may ask for the password meanwhile

/** What the API refused or could not do; the message is for people. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Ask; give the answer, or raise a Problem. */
export async function ask(path, { method = "GET", query = {}, body } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const request = { method, signal: AbortSignal.timeout(method === "GET" ? TO_LOOK : TO_CHANGE), headers: {} };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(`${BASE}${path}${search}`, request);
  } catch (error) {
    const slow = error.name === "TimeoutError";
    throw new Problem(0, slow ? "the web UI does not answer in time" : "the web UI itself does not answer");
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Problem(response.status, answer?.detail ?? `the web UI answers ${response.status}`);
  if (answer === null) throw new Problem(response.status, "the answer was cut off, or is not the web UI's");
  return answer;
}

export const post = (path, body) => ask(path, { method: "POST", body });

/** An id to repeat a request by; crypto.randomUUID is for HTTPS only. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
