/** Compactions by hand. */

import { hasReason } from "./errors.js";
import * as v1 from "./gen/v1.js";
import type { Session } from "./session.js";

/** Thrown where there was nothing to compact, or the compaction ended otherwise than done. */
export class NotCompacted extends Error {
  override name = "NotCompacted";
}

/** Asks for a compaction, and waits for its end. Throws `NotCompacted`. */
export async function compactNow(
  session: Session,
  instructions: string | undefined,
  signal?: AbortSignal,
): Promise<v1.Compaction> {
  let compactionId: string;
  try {
    compactionId = (await session.compact({ instructions })).compaction?.compactionId ?? "";
  } catch (error) {
    if (hasReason(error, "NOTHING_TO_COMPACT")) throw new NotCompacted(error.text);
    throw error;
  }
  const kinds = [v1.EventKind.COMPACTED, v1.EventKind.COMPACTION_FAILED, v1.EventKind.COMPACTION_CANCELLED];
  // From the first frame on no end is missed.
  for await (const { frame } of session.frames({ kinds, signal })) {
    if (frame.case !== "ready" && frame.case !== "events") continue;
    const { compaction } = await session.call(v1.CompactionService.method.getCompaction, { compactionId });
    if (!compaction?.endTime) continue;
    if (compaction.outcome) return compaction;
    throw new NotCompacted(compaction.failure?.message || v1.CompactionState[compaction.state] || "it failed");
  }
  throw new NotCompacted("the stream of its events ended");
}
