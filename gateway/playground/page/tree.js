// The token tree of a message as nested nodes, and as nested lists.

import { ACCEPTED, BONUS } from "./run.js";

export const ROOT = "root";
export const CANDIDATE = "candidate";

/** Nodes {text, tokenId, kind, children} from the root down; the bonus token ends the path. */
export function nested(message) {
  const { tree, node_texts: texts, token_texts: added } = message.round_report;
  const accepted = new Set(tree.accepted_indices);
  const nodes = tree.token_ids.map((tokenId, index) => {
    const kind = index === 0 ? ROOT : accepted.has(index) ? ACCEPTED : CANDIDATE;
    return { text: texts[index], tokenId, kind, children: [] };
  });
  nodes.slice(1).forEach((node, place) => nodes[tree.parents[place + 1]].children.push(node));
  if (message.token_ids.length > message.accepted_count) {
    const end = nodes[tree.accepted_indices.at(-1) ?? 0];
    const text = added.at(-1);
    end.children.unshift({ text, tokenId: message.token_ids.at(-1), kind: BONUS, children: [] });
  }
  return nodes[0];
}

/** How a token reads by itself: spaces and ends of lines can be seen, nothing is a number. */
export function visible(text, tokenId) {
  if (!text) return `#${tokenId}`;
  return text.replaceAll(" ", "·").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

/** Shows a tree in place of what an element holds. */
export function draw(element, root) {
  const list = document.createElement("ul");
  list.append(item(root));
  element.replaceChildren(list);
}

function item(node) {
  const entry = document.createElement("li");
  const label = document.createElement("span");
  label.className = node.kind;
  label.textContent = visible(node.text, node.tokenId);
  label.title = `token ${node.tokenId}, ${node.kind}`;
  const spoken = document.createElement("span");
  spoken.className = "spoken";
  spoken.textContent = ` (${node.kind})`;
  label.append(spoken);
  entry.append(label);
  if (node.children.length) {
    const list = document.createElement("ul");
    list.append(...node.children.map(item));
    entry.append(list);
  }
  return entry;
}
