// The rows of a session: its history beside the view. Pure: what the view says of each message decides what a row is.
import type { ApprovalJson } from '../gen/longhand/v1/approval_pb';
import type { ViewEndJson, ViewMessageJson } from '../gen/longhand/v1/view_pb';
import type { MessageJson } from '../gen/longhand/v1/message_pb';
import type { RevisionRangeJson } from '../gen/longhand/v1/session_pb';
import { num } from '../lib/format';
import { asOf } from './state';

/** What the view does with a message of the history. */
export type Fate = 'shown' | 'shortened' | 'covered' | 'omitted' | 'rewound' | 'edited' | 'replaced' | 'replacement' | 'nothing' | 'record' | 'beyond' | 'unseen' | 'writing';

export interface Row {
  key: string;
  /** The message of the history; none for what is in the view alone. */
  message: MessageJson | null;
  /** What the view shows in its place. */
  shown: ViewMessageJson[];
  fate: Fate;
  /** The compaction that is the reason, or the revision of the mark. */
  compactionId: string;
  markRevision: number;
  pinned: boolean;
  /** The first of several covered or omitted messages in a row. */
  begins: boolean;
  /** A question of an agent, which is no message. */
  question?: ApprovalJson;
  /** The call of the missing result may still get one. */
  running?: boolean;
  /** The compaction whose summary covers it, also where a pin shows it. */
  coveredBy?: string;
  /** The message that it replaces, or that replaces it. */
  counterpart?: string;
  /** Number of records, or of messages behind the beginning of a fork, that the row stands for. */
  folded?: number;
}

export interface Source {
  history: MessageJson[];
  /** Older pages of the history are not there yet. */
  hasOlder: boolean;
  /** Newer ones are not. */
  hasNewer: boolean;
  view: ViewState | null;
  replacements: Map<string, string>;
  questions: ApprovalJson[];
  /** The revision of the rows. */
  revision: number;
  isNow: boolean;
  /** The revision at which the present run began; infinite if the newest run has ended, none if no run is known. */
  runFrom: number | null;
  /** The last revision that a fork has of its original, whose calls nobody runs in the fork; 0 in other sessions. */
  inherited: number;
}

export interface ViewState {
  revision: number;
  messages: ViewMessageJson[];
  end: ViewEndJson;
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

function spans(end: ViewEndJson): Span[] {
  const of = (range: RevisionRangeJson | undefined) => ({ first: num(range?.firstRevision), last: num(range?.lastRevision) });
  const covered = (end.covered?.coveredRanges ?? []).map((range) => ({
    ...of(range),
    fate: 'covered' as Fate,
    compactionId: end.covered?.compactionId ?? '',
    markRevision: 0,
  }));
  const byProvider = (end.providerCompaction?.coveredRanges ?? []).map((range) => ({
    ...of(range),
    fate: 'covered' as Fate,
    compactionId: '',
    markRevision: 0,
  }));
  const omitted = (end.omitted ?? []).map((one) => ({
    ...of(one.range),
    fate: OMISSIONS[one.reason ?? ''] ?? 'omitted',
    compactionId: one.compactionId ?? '',
    markRevision: num(one.markRevision),
  }));
  return [...omitted, ...covered, ...byProvider].sort((left, right) => left.first - right.first);
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

const isShortened = (message: ViewMessageJson) => (message.parts ?? []).some((part) => part.shortening && part.shortening !== 'SHORTENING_UNSPECIFIED');

/** Marks the missing results of calls that may still get one: nobody has spoken since, or the run that calls is active. */
function markRunning(result: Row[], runFrom: number | null, inherited: number): void {
  if (runFrom === Infinity) return;
  // From the end to the last message of an assistant: that of the calls which can be open.
  const missing: Row[] = [];
  let isLast = true;
  for (const row of [...result].reverse()) {
    if (row.shown[0]?.kind === 'VIEW_MESSAGE_KIND_MISSING_RESULT') missing.push(row);
    else if (row.message?.role === 'ROLE_ASSISTANT' && row.fate !== 'record') {
      // A prompt that steers a run comes while its calls are open.
      const isOfRun = runFrom !== null && num(row.message.revision) >= runFrom;
      for (const one of missing) one.running = (isLast && num(row.message.revision) > inherited) || isOfRun;
      return;
    } else if (row.message?.role === 'ROLE_USER' && row.fate !== 'record') isLast = false;
  }
}

function questionRow(question: ApprovalJson): Row {
  return { key: `question:${question.approvalId}`, message: null, shown: [], fate: 'shown', compactionId: '', markRevision: 0, pinned: false, begins: false, question };
}

/**
 * The rows: every message of the history up to a revision, in order, with what the view shows of it, and the view's own
 * messages (summaries, markers, texts of the policy) before what follows them there.
 */
export function rows({ history, hasOlder, hasNewer, view, replacements, questions, revision, isNow, runFrom, inherited }: Source): Row[] {
  const messages = history.filter((message) => num(message.revision) <= revision).map((message) => asOf(message, revision));
  const byId = new Map<string, ViewMessageJson[]>();
  const own = new Map<string, ViewMessageJson[]>();
  const known = new Map<string, number>();
  messages.forEach((message, at) => known.set(message.messageId ?? '', at));
  const originals = new Map<string, string>();
  for (const [original, replacement] of replacements) {
    // An edit that a later one replaces has its replacement, too, which is in the place of the first.
    const isFirst = known.has(original) && !(known.get(originals.get(replacement) ?? '')! < known.get(original)!);
    if (isFirst && known.has(replacement)) originals.set(replacement, original);
  }
  let waiting: ViewMessageJson[] = [];
  for (const message of view?.messages ?? []) {
    const id = message.messageId ?? '';
    const place = originals.get(id) ?? id;
    if (!known.has(place)) {
      // A message of a page that is not there yet comes with it, and so does what the view has before it.
      if ((hasOlder || hasNewer) && message.kind === 'VIEW_MESSAGE_KIND_SHOWN') waiting = [];
      else waiting.push(message);
      continue;
    }
    if (waiting.length) own.set(place, [...(own.get(place) ?? []), ...waiting]);
    waiting = [];
    byId.set(place, [...(byId.get(place) ?? []), message]);
  }
  const find = finder(spans(view?.end ?? {}));
  const result: Row[] = [];
  const keys = new Set<string>();
  const extra = (message: ViewMessageJson, near: string, at: number): Row => {
    // Pairing splits a message into several with one id.
    let key = `own:${message.messageId || `${near}:${message.kind}:${at}`}`;
    while (keys.has(key)) key += '~';
    keys.add(key);
    return { key, message: null, shown: [message], fate: 'shown', compactionId: message.provenance?.compactionId ?? '', markRevision: 0, pinned: false, begins: false };
  };
  const first = num(messages[0]?.revision);
  const last = hasNewer ? num(messages.at(-1)?.revision) : revision;
  // A question that waits is asked below.
  const asked = questions.filter((one) => (one.end || !isNow) && (!hasOlder || num(one.requestRevision) >= first) && num(one.requestRevision) <= last).reverse();
  let answered = 0;
  for (const message of messages) {
    const id = message.messageId ?? '';
    while (answered < asked.length && num(asked[answered]!.requestRevision) < num(message.revision)) result.push(questionRow(asked[answered++]!));
    (own.get(id) ?? []).forEach((before, at) => result.push(extra(before, id, at)));
    const shown = byId.get(id) ?? [];
    const span = find(num(message.revision));
    let fate: Fate = 'unseen';
    if (message.kind === 'MESSAGE_KIND_RECORD') fate = 'record';
    else if (shown.length) fate = shown.some((one) => one.messageId !== id) ? 'edited' : shown.some(isShortened) ? 'shortened' : 'shown';
    else if (originals.has(id)) fate = 'replacement';
    else if (!message.sealedRevision) fate = 'writing';
    // The first revision of a fork leaves out what its original had behind the place where it begins.
    else if (span) fate = span.fate === 'rewound' && inherited && span.markRevision === inherited + 1 ? 'beyond' : span.fate;
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
      coveredBy: span?.fate === 'covered' ? span.compactionId : undefined,
      counterpart: originals.get(id) ?? (known.has(replacements.get(id) ?? '') ? replacements.get(id) : undefined),
    });
  }
  while (answered < asked.length) result.push(questionRow(asked[answered++]!));
  if (hasNewer) return result;
  waiting.forEach((message, at) => result.push(extra(message, 'end', at)));
  markRunning(result, runFrom, inherited);
  return result;
}

/** Records in a row from which on one row stands for them. */
const RECORDS = 4;

const isFoldable = (row: Row | undefined) => row?.fate === 'record' || row?.fate === 'beyond';

/** The rows with one in the place of each longer run of records, and of what is behind the beginning of a fork, except of those
 *  that are opened. */
export function foldRecords(all: Row[], hasOlder: boolean, opened: Set<string>): Row[] {
  const result: Row[] = [];
  for (let at = 0; at < all.length; ) {
    const { fate } = all[at]!;
    let end = at;
    while (end < all.length && isFoldable(all[end]) && all[end]!.fate === fate) end += 1;
    // Named by its last row: older ones are read later.
    const key = end > at ? `${fate}s:${all[end - 1]!.key}` : '';
    const isLong = end > at && (fate === 'beyond' || end - at >= RECORDS || (at === 0 && hasOlder));
    if (!isLong || opened.has(key)) {
      end = Math.max(end, at + 1);
      for (let one = at; one < end; one += 1) result.push(all[one]!);
    } else result.push({ ...all[at]!, key, message: null, folded: end - at });
    at = end;
  }
  return result;
}
