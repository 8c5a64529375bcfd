// What the page asks of its service. Errors say what happened, and which field is at fault.

import { readMessages } from "./events.js";

const KEY = "outrider-api-key"; // in sessionStorage: gone with the tab

/** A refusal: the service's own words. */
export class Refused extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param ?? null;
  }
}

export function keptKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function keepKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** The served model. */
export async function askModel() {
  const response = await ask("v1/models", {});
  return (await response.json()).data[0];
}

/** The messages of an answer, as they come. */
export async function* generate(body, signal) {
  const response = await ask("generate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, report_rounds: true }),
    signal,
  });
  for await (const message of readMessages(response.body)) {
    if (message.error) throw refusal(response.status, message.error, null);
    yield message;
  }
}

async function ask(path, options) {
  const headers = { ...options.headers };
  if (keptKey()) headers.Authorization = `Bearer ${keptKey()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service cannot be reached.");
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw refusal(response.status, error, response.headers.get("Retry-After"));
}

function refusal(status, error, retryAfter) {
  const words = error?.message ?? `The service answered with status ${status}.`;
  const again = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  return new Refused(status, words + again, error?.param);
}
