// A session as the page has it: pages of history, the view, what is being written, and what waits. One stream keeps it
// up to date; a change of the view is asked for as the difference to what is held.
import type { ApprovalJson } from '../gen/longhand/v1/approval_pb';
import type { CompactionJson } from '../gen/longhand/v1/compaction_pb';
import type { ContextEndJson, ContextHeaderJson, ContextMessageJson } from '../gen/longhand/v1/context_pb';
import type { DraftDeltaJson, EventJson, PresenceChangedJson, PresenceJson, SummaryDeltaJson } from '../gen/longhand/v1/event_pb';
import type { ListMessagesResponseJson, MessageJson, GetMessageResponseJson } from '../gen/longhand/v1/message_pb';
import type { PromptJson } from '../gen/longhand/v1/prompt_pb';
import type { GetRunResponseJson } from '../gen/longhand/v1/run_pb';
import type { SessionJson, OverWindowJson } from '../gen/longhand/v1/session_pb';
import { get, queryText, sentence, sessionPath } from '../lib/api';
import { num } from '../lib/format';
import { Stream } from '../lib/stream.svelte';
import type { Reversals } from './changes';
import { rows, type Row, type ViewState } from './rows';

export interface DraftText {
  kind: string;
  text: string;
  bytes: number;
  tool: string;
  callId: string;
}

export interface View extends ViewState {
  header: ContextHeaderJson;
}

/** The newest pages of the history as it was at a revision. */
interface Pages {
  revision: number;
  messages: MessageJson[];
  olderToken: string;
}

const KINDS = [
  'session_created', 'session_updated', 'session_archived', 'session_restored', 'session_forked', 'policy_changed', 'message_appended',
  'parts_closed', 'message_finished', 'usage_recorded', 'session_rewound', 'message_edited', 'message_pinned', 'message_unpinned',
  'compaction_started', 'compaction_proposed', 'compaction_retried', 'parts_pruned', 'compacted', 'compaction_failed', 'compaction_cancelled',
  'compaction_undone', 'compaction_redone', 'rewrite_undone', 'rewrite_redone', 'run_started', 'run_cancel_requested', 'run_ended',
  'prompt_submitted', 'prompt_moved', 'prompt_taken', 'prompt_withdrawn', 'approval_requested', 'approval_ended', 'label_added', 'label_removed',
  'erased',
];
const BESIDE = ['draft_delta', 'summary_delta', 'presence_changed'];

/** Kinds of events after which the view may be another one. */
const CHANGES_VIEW = /^(message_|parts_|session_rewound|compact|rewrite_|policy_changed|prompt_taken|session_updated|run_ended)/;
const CHANGES_COMPACTIONS = /^compact/;
const CHANGES_WORK = /^(run_|prompt_|approval_|compact)/;
const PAGE = 200;
const PAGE_OLDER = 500;
const PAGE_MOST = 1000;
/** Messages before a revision that are read with it. */
const BEFORE = 60;

/** Reads a view as it comes: the frames are an array of JSON. */
async function readView(id: string, query: Record<string, unknown>, signal?: AbortSignal): Promise<{ header: ContextHeaderJson; messages: ContextMessageJson[]; end: ContextEndJson }> {
  type Frame = { header?: ContextHeaderJson; messages?: { messages?: ContextMessageJson[] }; end?: ContextEndJson };
  const frames = await get<Frame[]>(`${sessionPath(id)}/view`, query, signal);
  const header = frames.find((frame) => frame.header)?.header ?? {};
  const messages = frames.flatMap((frame) => frame.messages?.messages ?? []);
  const end = frames.find((frame) => frame.end)?.end ?? {};
  return { header, messages, end };
}

/** Runs at most once at a time, and once more if asked meanwhile. */
function single(act: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  let again = false;
  const run = async (): Promise<void> => {
    do {
      again = false;
      await act();
    } while (again);
  };
  return () => {
    if (running) again = true;
    else running = run().finally(() => (running = null));
    return running;
  };
}

export class SessionModel {
  readonly id: string;
  session = $state.raw<SessionJson | null>(null);
  overWindow = $state.raw<OverWindowJson | null>(null);
  history = $state.raw<MessageJson[]>([]);
  #olderToken = $state('');
  /** Pages around a past revision, where those of now do not reach it. */
  #pages = $state.raw<Pages | null>(null);
  loadingOlder = $state(false);
  view = $state.raw<View | null>(null);
  past = $state.raw<View | null>(null);
  /** The revision that was asked for; none for now. */
  asOf = $state<number | null>(null);
  /** The revision that the rows show; what was shown before stays until the past one has come. */
  at = $derived(this.asOf === null ? null : (this.past?.revision ?? null));
  pastFailure = $state('');
  failure = $state('');
  loaded = $state(false);
  compactions = $state.raw<CompactionJson[]>([]);
  work = $state.raw<GetRunResponseJson>({});
  prompts = $state.raw<PromptJson[]>([]);
  /** Questions that wait. */
  approvals = $state.raw<ApprovalJson[]>([]);
  /** The newest questions, with their answers. */
  questions = $state.raw<ApprovalJson[]>([]);
  reversals = $state.raw<Reversals>({ undo: '', redo: '' });
  /** The sessions that it was forked from and that it works for, with their titles. */
  relatives = $state.raw<{ source: SessionJson | null; parent: SessionJson | null }>({ source: null, parent: null });
  presences = $state.raw<PresenceJson[]>([]);
  drafts = $state.raw<Map<string, Map<string, DraftText>>>(new Map());
  summaryDraft = $state.raw<{ compactionId: string; summarizer: string; text: string } | null>(null);
  /** Counts changes of what the timeline draws. */
  changes = $state(0);
  revision = $state(0);
  stream: Stream;
  replacements = $state.raw<Map<string, string>>(new Map());
  rows: Row[] = $derived.by(() => {
    const run = this.work.run;
    if (this.at === null) return rows({ history: this.history, hasOlder: !!this.#olderToken, view: this.view, replacements: this.replacements, questions: this.questions, upTo: null, runFrom: run && !run.end ? num(run.startRevision) : run ? Infinity : null });
    return rows({ history: this.#pages?.messages ?? this.history, hasOlder: this.hasOlder, view: this.past, replacements: this.replacements, questions: this.questions, upTo: this.at, runFrom: null });
  });
  hasOlder = $derived(!!(this.at !== null && this.#pages ? this.#pages.olderToken : this.#olderToken));
  #index = new Map<string, number>();
  #pastAbort: AbortController | null = null;
  #older: Promise<boolean> | null = null;
  #closed = false;
  #pending: EventJson[] = [];
  #flushing = false;

  refreshView = single(() => this.#refreshView());
  refreshWork = single(() => this.#refreshWork());
  refreshCompactions = single(() => this.#refreshCompactions());
  refreshQuestions = single(() => this.#refreshQuestions());
  refreshSession = single(() => this.#refreshSession());

  constructor(id: string) {
    this.id = id;
    this.stream = new Stream({
      url: (after) => `${sessionPath(id)}/events${queryText({ include_content: true, include_deltas: true, include_presence: true, after })}`,
      names: [...KINDS, ...BESIDE],
      take: (name, data) => this.#take(name, data),
      restart: () => void this.load(),
    });
    void this.load();
  }

  close(): void {
    this.#closed = true;
    this.stream.close();
    this.#pastAbort?.abort();
  }

  /** Reads everything: at the beginning, and when the stream cannot continue. */
  async load(): Promise<void> {
    try {
      await this.#refreshSession();
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: PAGE });
      this.#replaceHistory([...(page.messages ?? [])].reverse());
      this.#olderToken = page.nextPageToken ?? '';
      this.view = null;
      await Promise.all([this.refreshView(), this.refreshWork(), this.refreshQuestions(), this.refreshCompactions()]);
      await this.#readOpenDrafts();
      this.failure = '';
      this.loaded = true;
      this.changes += 1;
    } catch (error) {
      this.failure = sentence(error);
      this.loaded = true;
    }
  }

  #replaceHistory(messages: MessageJson[]): void {
    this.history = messages;
    this.#index = new Map(messages.map((message, at) => [message.messageId ?? '', at]));
    const replaced = new Map(this.replacements);
    for (const message of messages) {
      const by = message.status?.byMessageId;
      if (by && message.status?.state === 'MESSAGE_STATE_EDITED') replaced.set(message.messageId ?? '', by);
    }
    this.replacements = replaced;
  }

  /** Reads the page before what is there; false if there is none, or it did not come. */
  older(size = PAGE_OLDER): Promise<boolean> {
    this.#older ??= this.#readOlder(size).finally(() => (this.#older = null));
    return this.#older;
  }

  async #readOlder(size: number): Promise<boolean> {
    const pages = this.at === null ? null : this.#pages;
    const token = pages ? pages.olderToken : this.#olderToken;
    if (!token || this.#closed) return false;
    this.loadingOlder = true;
    try {
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: size, page_token: token, as_of_revision: pages?.revision });
      const there = pages?.messages ?? this.history;
      const known = new Set(there.map((message) => message.messageId));
      const before = [...(page.messages ?? [])].reverse().filter((message) => !known.has(message.messageId));
      if (!pages) {
        this.#replaceHistory([...before, ...this.history]);
        this.#olderToken = page.nextPageToken ?? '';
      } else if (this.#pages === pages) this.#pages = { ...pages, messages: [...before, ...there], olderToken: page.nextPageToken ?? '' };
      return true;
    } catch (error) {
      this.failure = sentence(error);
      return false;
    } finally {
      this.loadingOlder = false;
    }
  }

  /** Reads pages until a row is there; false if it is not in the history. */
  async reach(key: string): Promise<boolean> {
    while (!this.rows.some((row) => row.key === key)) if (!(await this.older(PAGE_MOST))) return false;
    return true;
  }

  /** Reads all older pages. */
  async reachBeginning(): Promise<void> {
    while (this.hasOlder) if (!(await this.older(PAGE_MOST))) return;
  }

  /** The pages around a revision: those that are there if they reach it, else its own. */
  async #pagesOf(revision: number, signal: AbortSignal): Promise<Pages | null> {
    const reaches = (messages: MessageJson[], token: string) => !token || num(messages[0]?.revision) <= revision - BEFORE;
    if (reaches(this.history, this.#olderToken)) return null;
    const held = this.#pages;
    if (held && held.revision >= revision && reaches(held.messages, held.olderToken)) return held;
    const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: PAGE, as_of_revision: revision }, signal);
    return { revision, messages: [...(page.messages ?? [])].reverse(), olderToken: page.nextPageToken ?? '' };
  }

  async #refreshSession(): Promise<void> {
    const answer = await get<{ session?: SessionJson; overWindow?: OverWindowJson }>(sessionPath(this.id));
    this.session = answer.session ?? null;
    this.overWindow = answer.overWindow ?? null;
    this.revision = Math.max(this.revision, num(answer.session?.revision));
    void this.#readRelatives();
  }

  async #readRelatives(): Promise<void> {
    const read = async (id: string | undefined, held: SessionJson | null) =>
      !id ? null : held ?? (await get<{ session?: SessionJson }>(sessionPath(id)).then((answer) => answer.session ?? null, () => ({ sessionId: id })));
    const { source, parent } = this.relatives;
    const { sourceSessionId, parentSessionId } = this.session ?? {};
    if ((!sourceSessionId || source) && (!parentSessionId || parent)) return;
    this.relatives = { source: await read(sourceSessionId, source), parent: await read(parentSessionId, parent) };
  }

  async #refreshView(): Promise<void> {
    const held = this.view;
    const query = held ? { known_view_hash: held.header.viewHash, known_revision: held.header.revision } : {};
    const { header, messages, end } = await readView(this.id, query);
    const kept = held ? held.messages.slice(0, num(header.knownMessageCount)) : [];
    this.view = { header, messages: [...kept, ...messages], end, revision: num(header.revision) };
  }

  async #refreshWork(): Promise<void> {
    const [work, prompts, approvals] = await Promise.all([
      get<GetRunResponseJson>(`${sessionPath(this.id)}/run`),
      get<{ prompts?: PromptJson[] }>(`${sessionPath(this.id)}/prompts`),
      get<{ approvals?: ApprovalJson[] }>(`${sessionPath(this.id)}/approvals`),
    ]);
    this.work = work;
    this.prompts = prompts.prompts ?? [];
    this.approvals = approvals.approvals ?? [];
  }

  async #refreshQuestions(): Promise<void> {
    const answer = await get<{ approvals?: ApprovalJson[] }>(`${sessionPath(this.id)}/approvals`, { include_ended: true, page_size: 200 });
    this.questions = answer.approvals ?? [];
  }

  async #refreshCompactions(): Promise<void> {
    const answer = await get<{ compactions?: CompactionJson[] }>(`${sessionPath(this.id)}/compactions`, { page_size: 200 });
    this.compactions = answer.compactions ?? [];
  }

  async #readOpenDrafts(): Promise<void> {
    for (const message of this.history.filter((one) => !one.sealedRevision && one.kind !== 'MESSAGE_KIND_RECORD')) await this.#readDrafts(message.messageId ?? '');
  }

  async #readDrafts(messageId: string): Promise<void> {
    try {
      const answer = await get<GetMessageResponseJson>(`${sessionPath(this.id)}/messages/${messageId}`);
      if (answer.message) this.#upsert(answer.message);
      const encoder = new TextEncoder();
      const texts = new Map<string, DraftText>();
      for (const draft of answer.drafts ?? []) {
        const text = draft.text ?? '';
        const read = { kind: draft.kind ?? '', text, bytes: encoder.encode(text).length, tool: draft.tool ?? '', callId: draft.callId ?? '' };
        // More of it may have come by the stream meanwhile.
        const held = this.drafts.get(messageId)?.get(draft.partId ?? '');
        texts.set(draft.partId ?? '', held && held.bytes > read.bytes ? held : read);
      }
      const drafts = new Map(this.drafts);
      if (texts.size) drafts.set(messageId, texts);
      else drafts.delete(messageId);
      this.drafts = drafts;
    } catch {
      // A message that cannot be read now comes with its next event.
    }
  }

  #upsert(message: MessageJson): void {
    const id = message.messageId ?? '';
    const at = this.#index.get(id);
    const history = this.history;
    if (at !== undefined) {
      const before = history[at]!;
      const next = history.slice();
      next[at] = { ...message, status: message.status ?? before.status ?? {} };
      this.history = next;
      return;
    }
    if (message.origin === 'ORIGIN_DERIVED' && message.kind !== 'MESSAGE_KIND_BRANCH_SUMMARY') return;
    const revision = num(message.revision);
    if (history.length && revision < num(history[0]?.revision) && this.#olderToken) return;
    let place = history.length;
    while (place > 0 && num(history[place - 1]?.revision) > revision) place -= 1;
    const next = history.slice();
    next.splice(place, 0, message);
    this.history = next;
    for (let from = place; from < next.length; from += 1) this.#index.set(next[from]?.messageId ?? '', from);
  }

  #take(name: string, data: unknown): void {
    if (name === 'draft_delta') return this.#delta(data as DraftDeltaJson);
    if (name === 'summary_delta') return this.#summaryDelta(data as SummaryDeltaJson);
    if (name === 'presence_changed') {
      this.presences = (data as PresenceChangedJson).presences ?? [];
      return;
    }
    this.#pending.push(data as EventJson);
    if (this.#flushing) return;
    this.#flushing = true;
    // What comes together is drawn together.
    queueMicrotask(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    const events = this.#pending;
    this.#pending = [];
    let view = false;
    let work = false;
    let compactions = false;
    let questions = false;
    for (const event of events) {
      const kind = (event.kind ?? '').replace('EVENT_KIND_', '').toLowerCase();
      this.revision = Math.max(this.revision, num(event.revision));
      if (event.message) this.#upsert(event.message);
      if (event.messageEdited?.replacementMessageId) {
        this.replacements = new Map(this.replacements).set(event.messageEdited.messageId ?? '', event.messageEdited.replacementMessageId);
      }
      const pin = event.messagePinned ?? event.messageUnpinned;
      if (pin) this.#setPin(pin.messageId ?? '', !!event.messagePinned);
      const closed = event.partsClosed;
      if (closed) this.#closeDrafts(closed.messageId ?? '', closed.partIds ?? []);
      if (event.messageFinished) this.#closeDrafts(event.messageFinished.messageId ?? '', null);
      if (event.compacted || event.compactionFailed || event.compactionCancelled) this.summaryDraft = null;
      // Whoever keeps content forgets what was erased.
      if (event.erased) return void this.load();
      if (event.rewriteUndone || event.rewriteRedone) void this.#reloadStatuses();
      view ||= CHANGES_VIEW.test(kind);
      work ||= CHANGES_WORK.test(kind);
      compactions ||= CHANGES_COMPACTIONS.test(kind);
      questions ||= kind.startsWith('approval_');
    }
    const ignore = () => undefined;
    if (view) {
      void this.refreshView().catch(ignore);
      this.changes += 1;
    }
    void this.refreshSession().catch(ignore);
    if (work) void this.refreshWork().catch(ignore);
    if (questions) void this.refreshQuestions().catch(ignore);
    if (compactions) void this.refreshCompactions().catch(ignore);
  }

  /** An edit that was undone leaves no replacement behind. */
  async #reloadStatuses(): Promise<void> {
    const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: 1000 });
    const statuses = new Map((page.messages ?? []).map((message) => [message.messageId ?? '', message.status]));
    const replaced = new Map(this.replacements);
    for (const [id, status] of statuses) if (status?.state !== 'MESSAGE_STATE_EDITED') replaced.delete(id);
    this.replacements = replaced;
    this.#replaceHistory(this.history.map((message) => ({ ...message, status: statuses.get(message.messageId ?? '') ?? message.status ?? {} })));
  }

  #setPin(id: string, pinned: boolean): void {
    const at = this.#index.get(id);
    const message = at === undefined ? undefined : this.history[at];
    if (at === undefined || !message) return;
    const next = this.history.slice();
    next[at] = { ...message, status: { ...message.status, pinned } };
    this.history = next;
  }

  #closeDrafts(messageId: string, parts: string[] | null): void {
    const found = this.drafts.get(messageId);
    if (!found) return;
    const drafts = new Map(this.drafts);
    const rest = new Map(found);
    if (parts) for (const part of parts) rest.delete(part);
    if (!parts || rest.size === 0) drafts.delete(messageId);
    else drafts.set(messageId, rest);
    this.drafts = drafts;
  }

  #delta(delta: DraftDeltaJson): void {
    const messageId = delta.messageId ?? '';
    const partId = delta.partId ?? '';
    const at = this.#index.get(messageId);
    const message = at === undefined ? undefined : this.history[at];
    // Text of a part that has closed meanwhile comes late.
    if (message?.sealedRevision || message?.parts?.some((part) => part.partId === partId)) return;
    const before = this.drafts.get(messageId)?.get(partId) ?? { kind: delta.kind ?? '', text: '', bytes: 0, tool: delta.tool ?? '', callId: delta.callId ?? '' };
    const offset = num(delta.offsetBytes);
    if (offset > before.bytes) return void this.#readDrafts(messageId);
    if (offset < before.bytes) return;
    const text = delta.delta ?? '';
    const after = { ...before, text: before.text + text, bytes: before.bytes + new TextEncoder().encode(text).length };
    this.drafts = new Map(this.drafts).set(messageId, new Map(this.drafts.get(messageId)).set(partId, after));
  }

  #summaryDelta(delta: SummaryDeltaJson): void {
    const offset = num(delta.offsetBytes);
    const before = this.summaryDraft;
    const text = offset === 0 || before?.compactionId !== delta.compactionId ? (delta.delta ?? '') : before!.text + (delta.delta ?? '');
    this.summaryDraft = { compactionId: delta.compactionId ?? '', summarizer: delta.summarizer ?? '', text };
  }

  /** Shows everything as it was at a revision; as it is for none. */
  async lookAt(revision: number | null): Promise<void> {
    this.#pastAbort?.abort();
    this.asOf = revision;
    this.pastFailure = '';
    if (revision === null) {
      this.past = null;
      this.#pages = null;
      return;
    }
    const abort = new AbortController();
    this.#pastAbort = abort;
    try {
      const [{ header, messages, end }, pages] = await Promise.all([readView(this.id, { as_of_revision: revision }, abort.signal), this.#pagesOf(revision, abort.signal)]);
      if (abort.signal.aborted) return;
      this.#pages = pages;
      this.past = { header, messages, end, revision };
    } catch (error) {
      if (!abort.signal.aborted) this.pastFailure = sentence(error);
    }
  }
}
