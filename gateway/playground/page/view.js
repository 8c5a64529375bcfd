// What a run looks like: its text, its figures, its trees. Asks for nothing and decides nothing.

import { draw, nested } from "./tree.js";

const at = (id) => document.getElementById(id);
let treeRounds = []; // messages that the slider chooses from

/** As before the first run. */
export function clearRuns() {
  at("answer").replaceChildren();
  at("plain-answer").replaceChildren();
  at("figures").tBodies[0].replaceChildren();
  at("round").disabled = true;
  at("tree").replaceChildren();
  at("tree-note").textContent = "none yet";
}

/** Adds text at the end, and keeps the end in sight where it was. */
export function showText(element, segments) {
  const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
  element.append(...segments.map(span));
  if (isAtEnd) element.scrollTop = element.scrollHeight;
}

function span({ text, origin, tokenId }) {
  const element = document.createElement("span");
  element.className = origin;
  element.textContent = text;
  element.title = `token ${tokenId}, ${origin}`;
  return element;
}

/** Shows the last round's tree, unless somebody looks at an earlier one. */
export function followTree(rounds) {
  if (!rounds.length) return;
  const slider = at("round");
  const follows = slider.disabled || slider.value === slider.max;
  treeRounds = rounds;
  slider.disabled = false;
  slider.max = rounds.length;
  if (follows) slider.value = rounds.length;
  showTree();
}

export function showTree() {
  const number = Number(at("round").value);
  const message = treeRounds[number - 1];
  const drafted = message.round_report.tree.token_ids.length - 1;
  at("tree-note").textContent =
    `${number} of ${treeRounds.length}: ${drafted} drafted, ${message.accepted_count} accepted`;
  draw(at("tree"), nested(message));
}

const FIGURES = [
  ["Tokens", (run) => run.tokenIds.length],
  ["Rounds", (run) => run.rounds.length],
  ["Tokens per round", (run) => run.tokensPerRound.toFixed(2)],
  ["Accepted", (run) => `${run.accepted} of ${run.drafted}`],
  ["First token, ms", (run) => run.firstTokenMs?.toFixed(0) ?? "…"],
  ["Tokens/s", (run) => run.tokensPerSecond?.toFixed(1) ?? "…"],
  ["Method", (run) => run.last?.speculation_report?.method ?? "…"],
  ["Ended by", (run) => run.last?.finish_reason ?? "…"],
];

export function showFigures(runs, seed) {
  const rows = FIGURES.map(([name, read]) => [name, ...runs.map(read)]);
  if (seed !== undefined) rows.push(["Seed", ...runs.map(() => seed)]);
  at("figures").classList.toggle("single", runs.length === 1);
  at("figures").tBodies[0].replaceChildren(...rows.map(row));
}

function row([name, ...values]) {
  const element = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  element.append(head);
  for (const value of values) element.insertCell().textContent = value;
  return element;
}
