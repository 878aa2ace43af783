// The rows of a session: its history beside the view. Pure: what the view says of each message decides what a row is.
import type { ContextEndJson, ContextMessageJson, RevisionRangeJson } from '../gen/longhand/v1/context_pb';
import type { MessageJson } from '../gen/longhand/v1/message_pb';
import { num } from '../lib/format';

/** What the view does with a message of the history. */
export type Fate = 'shown' | 'shortened' | 'covered' | 'omitted' | 'rewound' | 'edited' | 'replaced' | 'replacement' | 'nothing' | 'record' | 'unseen' | 'writing';

export interface Row {
  key: string;
  /** The message of the history; none for what is in the view alone. */
  message: MessageJson | null;
  /** What the view shows in its place. */
  shown: ContextMessageJson[];
  fate: Fate;
  /** The compaction that is the reason, or the revision of the mark. */
  compactionId: string;
  markRevision: number;
  pinned: boolean;
  /** The first of several covered or omitted messages in a row. */
  begins: boolean;
}

export interface ViewState {
  revision: number;
  messages: ContextMessageJson[];
  end: ContextEndJson;
}

const OMISSIONS: Record<string, Fate> = {
  OMIT_REASON_REWOUND: 'rewound',
  OMIT_REASON_EDITED: 'edited',
  OMIT_REASON_EMPTY: 'nothing',
  OMIT_REASON_REPLAYED: 'replaced',
};

interface Span {
  first: number;
  last: number;
  fate: Fate;
  compactionId: string;
  markRevision: number;
}

function spans(end: ContextEndJson): Span[] {
  const of = (range: RevisionRangeJson | undefined) => ({ first: num(range?.firstRevision), last: num(range?.lastRevision) });
  const covered = (end.covered?.coveredRanges ?? []).map((range) => ({
    ...of(range),
    fate: 'covered' as Fate,
    compactionId: end.covered?.compactionId ?? '',
    markRevision: 0,
  }));
  const omitted = (end.omitted ?? []).map((one) => ({
    ...of(one.range),
    fate: OMISSIONS[one.reason ?? ''] ?? 'omitted',
    compactionId: one.compactionId ?? '',
    markRevision: num(one.markRevision),
  }));
  return [...omitted, ...covered].sort((left, right) => left.first - right.first);
}

/** A finder of the span that a revision is in; asked for rising revisions. */
function finder(all: Span[]): (revision: number) => Span | undefined {
  let at = 0;
  return (revision) => {
    while (at < all.length && all[at]!.last < revision) at += 1;
    // Spans of different reasons may overlap; the earliest that holds the revision is near.
    for (let next = at; next < all.length && all[next]!.first <= revision; next += 1) {
      if (all[next]!.last >= revision) return all[next];
    }
    return undefined;
  };
}

const isShortened = (message: ContextMessageJson) => (message.parts ?? []).some((part) => part.shortening && part.shortening !== 'SHORTENING_UNSPECIFIED');

/**
 * The rows: every message of the history up to a revision, in order, with what the view shows of it, and the view's own
 * messages (summaries, markers, texts of the policy) before what follows them there.
 */
export function rows(history: MessageJson[], view: ViewState | null, replacements: Map<string, string>, upTo: number | null): Row[] {
  const messages = upTo === null ? history : history.filter((message) => num(message.revision) <= upTo);
  const byId = new Map<string, ContextMessageJson[]>();
  const own = new Map<string, ContextMessageJson[]>();
  const known = new Map<string, number>();
  messages.forEach((message, at) => known.set(message.messageId ?? '', at));
  const originals = new Map<string, string>();
  for (const [original, replacement] of replacements) {
    if (known.has(original) && known.has(replacement)) originals.set(replacement, original);
  }
  let waiting: ContextMessageJson[] = [];
  for (const message of view?.messages ?? []) {
    const id = message.messageId ?? '';
    const place = originals.get(id) ?? id;
    if (!known.has(place)) {
      waiting.push(message);
      continue;
    }
    if (waiting.length) own.set(place, [...(own.get(place) ?? []), ...waiting]);
    waiting = [];
    byId.set(place, [...(byId.get(place) ?? []), message]);
  }
  const find = finder(spans(view?.end ?? {}));
  const result: Row[] = [];
  const extra = (message: ContextMessageJson, near: string, at: number): Row => ({
    key: `own:${message.messageId || `${near}:${message.kind}:${at}`}`,
    message: null,
    shown: [message],
    fate: 'shown',
    compactionId: message.provenance?.compactionId ?? '',
    markRevision: 0,
    pinned: false,
    begins: false,
  });
  for (const message of messages) {
    const id = message.messageId ?? '';
    (own.get(id) ?? []).forEach((before, at) => result.push(extra(before, id, at)));
    const shown = byId.get(id) ?? [];
    const span = find(num(message.revision));
    let fate: Fate = 'unseen';
    if (message.kind === 'MESSAGE_KIND_RECORD') fate = 'record';
    else if (shown.length) fate = shown.some((one) => one.messageId !== id) ? 'edited' : shown.some(isShortened) ? 'shortened' : 'shown';
    else if (originals.has(id)) fate = 'replacement';
    else if (!message.sealedRevision || (upTo !== null && num(message.sealedRevision) > upTo)) fate = 'writing';
    else if (span) fate = span.fate;
    const before = result.at(-1);
    const reason = shown.length || fate === 'record' ? undefined : span;
    result.push({
      key: id,
      message,
      shown,
      fate,
      compactionId: reason?.compactionId ?? '',
      markRevision: reason?.markRevision ?? 0,
      pinned: message.status?.pinned ?? false,
      begins: !before || before.message === null || before.fate !== fate,
    });
  }
  waiting.forEach((message, at) => result.push(extra(message, 'end', at)));
  return result;
}
