// Server-sent events of one answer, as objects. Knows no field of them.

/** Cuts text that arrives in parts into the payloads of its events. */
export class EventParser {
  #rest = "";

  /** The payloads that are complete with this part. */
  push(part) {
    const events = (this.#rest + part).split("\n\n");
    this.#rest = events.pop();
    return events
      .filter((event) => event.startsWith("data: "))
      .map((event) => event.slice("data: ".length));
  }
}

/** The messages of a response's body; throws where it ends before "[DONE]". */
export async function* readMessages(body) {
  const parser = new EventParser();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The connection ended before the answer was complete.");
    for (const payload of parser.push(value)) {
      if (payload === "[DONE]") return;
      yield JSON.parse(payload);
    }
  }
}
