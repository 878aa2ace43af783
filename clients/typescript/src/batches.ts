/** Many messages, append by append. */

import { toBinary } from "@bufbuild/protobuf";
import * as v1 from "./gen/v1.js";

/** Messages of one append: few enough, and small enough, for a request. */
const BATCH = { messages: 256, bytes: 4 * 1024 * 1024 };

/** What one request takes: 512 messages and 12 MiB at most. */
const REQUEST = { messages: 500, bytes: 8 * 1024 * 1024 };

/** Messages in their order, as many together as one request takes; one that is too large alone is the daemon's to refuse. */
export function requests(messages: readonly v1.NewMessage[]): v1.NewMessage[][] {
  const few = messages.length <= REQUEST.messages;
  if (few && messages.reduce((bytes, message) => bytes + sizeOf(message), 0) <= REQUEST.bytes) return [[...messages]];
  const made: v1.NewMessage[][] = [[]];
  let bytes = 0;
  for (const message of messages) {
    const size = toBinary(v1.NewMessageSchema, message).length;
    let last = made.at(-1) ?? [];
    if (last.length === REQUEST.messages || (last.length > 0 && bytes + size > REQUEST.bytes)) {
      last = [];
      made.push(last);
      bytes = 0;
    }
    last.push(message);
    bytes += size;
  }
  return made;
}

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
