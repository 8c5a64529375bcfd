// One answer as it grows: which text came from where, and how fast. Plain values; time is an argument.

export const ACCEPTED = "accepted";
export const BONUS = "bonus";

/** All that has come of one answer. */
export class Run {
  tokenIds = [];
  segments = []; // {text, origin, tokenId}, in order; together they are the text
  drafted = 0;
  accepted = 0;
  rounds = []; // messages that tell a round
  last = null; // last message
  #started;
  #first = null;
  #latest;
  #firstCount = 0;
  #waiting = []; // tokens whose text has not been shown: a stop string may still take it back

  constructor(nowMs) {
    this.#started = this.#latest = nowMs;
  }

  /** Adds one message of the stream, asked for with report_rounds. */
  take(message, nowMs) {
    const report = message.round_report;
    this.#latest = nowMs;
    if (this.#first === null && message.token_ids.length) {
      this.#first = nowMs;
      this.#firstCount = message.token_ids.length;
    }
    if (report) {
      this.rounds.push(message);
      this.drafted += report.tree.token_ids.length - 1;
      this.accepted += message.accepted_count;
      message.token_ids.forEach((tokenId, place) => {
        const origin = place < message.accepted_count ? ACCEPTED : BONUS;
        this.#waiting.push({ text: report.token_texts[place], origin, tokenId });
      });
    }
    this.tokenIds.push(...message.token_ids);
    this.#show(message.text);
    this.last = message;
  }

  get text() {
    return this.segments.map((segment) => segment.text).join("");
  }

  get tokensPerRound() {
    return this.rounds.length ? this.tokenIds.length / this.rounds.length : 0;
  }

  /** From the request to the first token; null before it. */
  get firstTokenMs() {
    return this.#first === null ? null : this.#first - this.#started;
  }

  /** Behind the first message, so that the prompt does not count; null where there is nothing. */
  get tokensPerSecond() {
    const spent = this.#latest - this.#first;
    const count = this.tokenIds.length - this.#firstCount;
    return this.#first !== null && count && spent > 0 ? (count / spent) * 1000 : null;
  }

  /** Hands new text to the tokens it is of: theirs are the same characters, in the same order. */
  #show(text) {
    while (text) {
      const [token] = this.#waiting;
      const { origin, tokenId } = token ?? this.segments.at(-1) ?? { origin: BONUS, tokenId: 0 };
      const length = token ? Math.min(token.text.length, text.length) : text.length;
      if (length) this.segments.push({ text: text.slice(0, length), origin, tokenId });
      text = text.slice(length);
      if (!token) return;
      token.text = token.text.slice(length);
      if (!token.text) this.#waiting.shift();
    }
  }
}

/** Place of the first token that differs; -1 where none does. */
export function firstDifference(ids, others) {
  const length = Math.max(ids.length, others.length);
  for (let place = 0; place < length; place += 1) {
    if (ids[place] !== others[place]) return place;
  }
  return -1;
}
