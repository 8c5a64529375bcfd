// The page: reads the form, runs requests, says how they went.

import { Run, firstDifference } from "./run.js";
import { Refused, askModel, generate, keepKey, keptKey } from "./service.js";
import { clearRuns, followTree, showFigures, showText, showTree } from "./view.js";

const RETRY_MS = 2000;
const UNAUTHENTICATED = 401;
const FIELD_OF_PARAM = {
  chat: "prompt",
  prompt: "prompt",
  "limits.max_new_tokens": "tokens",
  "sampling.temperature": "temperature",
  "sampling.seed": "seed",
  "speculation.method": "method",
};

const at = (id) => document.getElementById(id);
let stopping = null; // of the requests that run, or null

// ---- what is served

async function showModel() {
  let model;
  try {
    model = await askModel();
  } catch (error) {
    at("model").textContent = `Not ready: ${error.message}`;
    if (error.status === UNAUTHENTICATED) showAccess();
    else setTimeout(showModel, RETRY_MS);
    return;
  }
  at("model").textContent = `${model.id}, context of ${model.context_limit} tokens`;
  const unnamed = new Option(`default: ${model.default_method}`, "");
  at("method").replaceChildren(unnamed, ...model.methods.map((name) => new Option(name, name)));
  if (!model.has_chat_template) {
    at("kind").value = "prompt";
    at("kind").querySelector("[value=chat]").disabled = true;
  }
}

function showAccess() {
  at("access").hidden = false;
  at("key").focus();
}

// ---- the form

function readForm() {
  const number = (id) => (at(id).value === "" ? undefined : Number(at(id).value));
  const temperature = number("temperature");
  const drawn = crypto.getRandomValues(new Uint32Array(1))[0];
  const text = at("prompt").value;
  return {
    ...(at("kind").value === "chat" ? { chat: [{ role: "user", content: text }] } : { prompt: text }),
    sampling: { temperature, seed: number("seed") ?? (temperature ? drawn : undefined) },
    limits: { max_new_tokens: number("tokens") },
    speculation: { method: at("method").value },
  };
}

async function start() {
  if (stopping || !at("form").reportValidity()) return;
  const body = readForm();
  stopping = new AbortController();
  clear();
  setRunning(true);
  try {
    await compare(body, stopping.signal);
  } catch (error) {
    if (error.name === "AbortError") at("status").textContent = "Stopped.";
    else showError(error);
  } finally {
    stopping = null;
    setRunning(false);
  }
}

function setRunning(isRunning) {
  const [now, before] = isRunning ? [at("stop"), at("start")] : [at("start"), at("stop")];
  now.disabled = false;
  if (document.activeElement === before) now.focus();
  before.disabled = true;
  at("answer").ariaBusy = String(isRunning); // read out when it is whole, not word by word
}

function clear() {
  at("error").textContent = at("status").textContent = "";
  for (const field of at("form").querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
  at("plain").hidden = true;
  clearRuns();
}

function showError(error) {
  at("status").textContent = "";
  at("error").textContent = error.message;
  if (error instanceof Refused && error.status === UNAUTHENTICATED) {
    showAccess();
    return;
  }
  const field = at(FIELD_OF_PARAM[error.param] ?? "");
  if (field) {
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", "error");
    field.focus();
  }
}

// ---- running

async function compare(body, signal) {
  at("status").textContent = "Generating …";
  const runs = [];
  await follow(body, signal, at("answer"), runs, true);
  if (at("compare").checked) {
    at("status").textContent = "Generating again, with plain decoding …";
    at("plain").hidden = false;
    const plain = { ...body, speculation: { disabled: true } };
    await follow(plain, signal, at("plain-answer"), runs, false);
  }
  const [run, plain] = runs;
  const told = `${run.tokenIds.length} tokens, ${run.tokensPerRound.toFixed(2)} per round`;
  at("status").textContent = `Done: ${told}. ${plain ? verdict(run, plain) : ""}`;
}

/** Runs one request and shows its messages, at most once a frame. */
async function follow(body, signal, element, runs, showsTree) {
  const run = new Run(performance.now());
  runs.push(run);
  let shown = 0;
  let frame = 0;
  const show = () => {
    frame = 0;
    showText(element, run.segments.slice(shown));
    shown = run.segments.length;
    showFigures(runs, body.sampling.seed);
    if (showsTree) followTree(run.rounds);
  };
  try {
    for await (const message of generate(body, signal)) {
      run.take(message, performance.now());
      frame ||= requestAnimationFrame(show);
    }
  } finally {
    cancelAnimationFrame(frame);
    show();
  }
}

function verdict(run, plain) {
  const place = firstDifference(run.tokenIds, plain.tokenIds);
  if (place >= 0) return `Plain decoding gave another token at place ${place + 1}.`;
  const [speed, before] = [run.tokensPerSecond, plain.tokensPerSecond];
  const times = speed && before ? `, ${(speed / before).toFixed(2)} times as fast` : "";
  return `The same ${run.tokenIds.length} token ids as with plain decoding${times}.`;
}

// ---- events

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
at("stop").addEventListener("click", () => stopping?.abort());
at("round").addEventListener("input", showTree);
at("key").addEventListener("change", () => {
  keepKey(at("key").value.trim());
  showModel();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stopping?.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
});

if (keptKey()) {
  at("access").hidden = false;
  at("key").value = keptKey();
}
showModel();
