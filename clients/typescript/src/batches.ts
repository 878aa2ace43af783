/** Many messages, append by append. */

import type * as v1 from "./gen/v1.js";

/** Messages of one append: few enough, and small enough, for a request. */
const BATCH = { messages: 256, bytes: 4 * 1024 * 1024 };

/** Items in their order, so that the messages of each batch fit an append. */
export function* batches<T>(items: readonly T[], messageOf: (item: T) => v1.NewMessage): Generator<T[]> {
  let batch: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = sizeOf(messageOf(item));
    if (batch.length === BATCH.messages || (batch.length > 0 && bytes + size > BATCH.bytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

/** The bytes of a message, at most: a letter of UTF-16 has three in UTF-8. */
function sizeOf(message: v1.NewMessage): number {
  let letters = message.metadataJson?.length ?? 0;
  let bytes = 0;
  for (const { body, metadataJson } of message.parts) {
    letters += metadataJson?.length ?? 0;
    if (body.case === "text" || body.case === "reasoning") letters += body.value.text.length;
    else if (body.case === "toolCall") letters += body.value.inputJson.length;
    else if (body.case === "toolResult") {
      letters += body.value.output.length;
      for (const { source } of body.value.attachments) bytes += source.case === "data" ? source.value.length : 0;
    } else if (body.case === "media") bytes += body.value.source.case === "data" ? body.value.source.value.length : 0;
    else if (body.case === "opaque") bytes += body.value.data.length;
  }
  return bytes + 3 * letters;
}
