// The list of sessions, from the frames of its stream. Pure.
import type { SessionJson, SessionListChangesJson } from '../gen/longhand/v1/session_pb';

export type Listed = Map<string, SessionJson>;

/** The list of a snapshot, or after more sessions came or changed. */
export const withSessions = (sessions: SessionJson[], before: Listed = new Map()): Listed => new Map([...before, ...sessions.map((one) => [one.sessionId ?? '', one] as const)]);

export function changed(before: Listed, { changedSessions = [], removedSessionIds = [] }: SessionListChangesJson): Listed {
  const after = withSessions(changedSessions, before);
  for (const id of removedSessionIds) after.delete(id);
  return after;
}

/** The sessions, the one that changed last first. */
export const newestFirst = (sessions: SessionJson[]) => sessions.sort((left, right) => Date.parse(right.updateTime ?? '') - Date.parse(left.updateTime ?? ''));
