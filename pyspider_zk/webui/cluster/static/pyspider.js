// Requests to routes that are pyspider's own, which the API does not have.

const READ_TIMEOUT = 15000; // milliseconds; a step may take longer

/** Send a request, by POST if there is a form; return the response's JSON, or throw an Error for people. */
export async function askPyspider(path, form) {
  const request = form ? { method: "POST", body: new URLSearchParams(form) } : { signal: AbortSignal.timeout(READ_TIMEOUT) };
  const response = await fetch(path, request).catch(() => { throw new Error("the web UI does not answer"); });
  const text = await response.text();
  const answer = parsed(text);
  if (!response.ok) throw new Error(answer?.detail ?? (text.startsWith("<") ? `the web UI returned ${response.status}` : text));
  if (answer === undefined) throw new Error("the response was cut off, or is no JSON");
  return answer;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
