// A session as the page has it: pages of history, the view, what is being written, and what waits. One stream keeps it
// up to date; a change of the view is asked for as the difference to what is held, and what the stream brings is shown with
// the view after it.
import type { ApprovalJson } from '../gen/longhand/v1/approval_pb';
import type { CompactionJson } from '../gen/longhand/v1/compaction_pb';
import type { DraftDeltaJson, EventJson, PresenceChangedJson, PresenceJson, SummaryDeltaJson } from '../gen/longhand/v1/event_pb';
import type { ListMessagesResponseJson, MessageJson, GetMessageResponseJson } from '../gen/longhand/v1/message_pb';
import type { PromptJson } from '../gen/longhand/v1/prompt_pb';
import type { GetRunResponseJson } from '../gen/longhand/v1/run_pb';
import type { MarkedWordsJson, OverWindowJson, SaidLineJson, SessionJson } from '../gen/longhand/v1/session_pb';
import { get, queryText, Refusal, sentence, sessionPath } from '../lib/api';
import { num } from '../lib/format';
import { Stream } from '../lib/stream.svelte';
import type { Reversals } from './changes';
import { rows, type Row } from './rows';
import { advanced, begun, changesStatuses, changesView, viewOf, withOlder, withEvents, type Beginning, type SessionState, type View, type ViewFrame } from './state';

export interface DraftText {
  kind: string;
  text: string;
  bytes: number;
  tool: string;
  callId: string;
}

/** The newest pages of the history as it was at a revision. */
interface Pages {
  revision: number;
  messages: MessageJson[];
  olderToken: string;
}

const KINDS = [
  'session_created', 'session_updated', 'session_archived', 'session_restored', 'session_forked', 'policy_changed', 'message_appended',
  'parts_closed', 'message_finished', 'usage_recorded', 'session_rewound', 'message_edited', 'message_pinned', 'message_unpinned', 'words_marked',
  'compaction_started', 'compaction_proposed', 'compaction_retried', 'parts_pruned', 'compacted', 'compaction_failed', 'compaction_cancelled',
  'compaction_undone', 'compaction_redone', 'rewrite_undone', 'rewrite_redone', 'run_started', 'run_cancel_requested', 'run_ended',
  'prompt_submitted', 'prompt_moved', 'prompt_taken', 'prompt_withdrawn', 'approval_requested', 'approval_ended', 'label_added', 'label_removed',
  'erased',
];
const BESIDE = ['draft_delta', 'summary_delta', 'presence_changed'];

const CHANGES_COMPACTIONS = /^compact/;
const CHANGES_WORK = /^(run_|prompt_|approval_|compact)/;
/** Kinds of events that make the view another one, and not only longer. */
const CHANGES_STEP = /^(compacted|parts_pruned|compaction_(un|re)done|rewrite_|session_rewound|message_edited)/;
const kindOf = (event: EventJson) => (event.kind ?? '').replace('EVENT_KIND_', '').toLowerCase();
const PAGE = 200;
const PAGE_OLDER = 500;
const PAGE_MOST = 1000;
const RETRY_MS = 1_000;
/** Messages before a revision that are read with it. */
const BEFORE = 60;

const readView = async (id: string, query: Record<string, unknown>, held: View | null, signal?: AbortSignal): Promise<View> => viewOf(await get<ViewFrame[]>(`${sessionPath(id)}/view`, query, signal), held);

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
  /** What is shown of now: history and view of one revision. */
  #state = $state.raw<SessionState | null>(null);
  view = $derived(this.#state?.view ?? null);
  history = $derived(this.#state?.messages ?? []);
  revision = $derived(this.#state?.revision ?? 0);
  /** Pages around a past revision, where those of now do not reach it. */
  #pages = $state.raw<Pages | null>(null);
  /** What is shown in place of the newest pages, or of those around a past revision. */
  #beginning = $state.raw<Beginning | null>(null);
  hasNewer = $derived(!!this.#beginning);
  /** Revisions that changed the view by more than what was appended, while the page was open. */
  steps = $state.raw<number[]>([]);
  loadingOlder = $state(false);
  past = $state.raw<View | null>(null);
  /** The revision that was asked for; none for now. */
  asOf = $state<number | null>(null);
  /** The revision that the rows show; what was shown before stays until the past one has come. */
  at = $derived(this.asOf === null || !this.#state ? null : (this.past?.revision ?? null));
  pastFailure = $state('');
  failure = $state('');
  /** There is no such session, or none that this session of the console may see. */
  missing = $state(false);
  loaded = $state(false);
  compactions = $state.raw<CompactionJson[]>([]);
  work = $state.raw<GetRunResponseJson>({});
  prompts = $state.raw<PromptJson[]>([]);
  /** Questions that wait. */
  approvals = $state.raw<ApprovalJson[]>([]);
  /** The newest questions, with their answers. */
  questions = $state.raw<ApprovalJson[]>([]);
  /** What people said beside the summary, and the messages whose words were struck out or kept. */
  words = $state.raw<{ lines: SaidLineJson[]; marked: MarkedWordsJson[] }>({ lines: [], marked: [] });
  reversals = $state.raw<Reversals>({ undo: '', redo: '' });
  /** The sessions that it was forked from and that it works for, with their titles. */
  relatives = $state.raw<{ source: SessionJson | null; parent: SessionJson | null }>({ source: null, parent: null });
  presences = $state.raw<PresenceJson[]>([]);
  drafts = $state.raw<Map<string, Map<string, DraftText>>>(new Map());
  summaryDraft = $state.raw<{ compactionId: string; summarizer: string; text: string } | null>(null);
  /** Counts changes of what the timeline draws. */
  changes = $state(0);
  stream: Stream;
  rows: Row[] = $derived.by(() => {
    const state = this.#state;
    if (!state) return [];
    const { replacements, runFrom } = state;
    const shared = { replacements, questions: this.questions, hasOlder: this.hasOlder, hasNewer: this.hasNewer, inherited: num(this.session?.sourceRevision) };
    if (this.at === null) return rows({ ...shared, history: this.#beginning?.messages ?? state.messages, view: state.view, revision: state.revision, isNow: true, runFrom });
    return rows({ ...shared, history: this.#beginning?.messages ?? this.#pages?.messages ?? state.messages, view: this.past, revision: this.at, isNow: false, runFrom: null });
  });
  hasOlder = $derived(!this.#beginning && !!(this.at !== null && this.#pages ? this.#pages.olderToken : this.#state?.olderToken));
  #pastAbort: AbortController | null = null;
  #older: Promise<boolean> | null = null;
  #newer: Promise<void> | null = null;
  #closed = false;
  /** Events that are not shown yet. */
  #pending: EventJson[] = [];
  #taken = false;
  /** The newest revision up to which the history is here. */
  #reached = 0;
  #onReached: (() => void) | undefined;
  /** What is there may have a gap, or has what was erased. */
  #isStale = true;
  #retry: ReturnType<typeof setTimeout> | undefined;

  #follow = single(() => this.#advance());
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
      begin: () => {
        this.#pending = [];
        this.#reached = 0;
        void this.load();
      },
    });
    // The stream does not tell why it is refused.
    void this.refreshSession().catch((error: unknown) => {
      this.missing = error instanceof Refusal && error.status === 404;
      if (this.missing) this.stream.close();
    });
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#onReached?.();
    this.stream.close();
    this.#pastAbort?.abort();
  }

  /** Reads everything: at the beginning, and when the stream cannot continue. */
  load(): Promise<void> {
    this.#isStale = true;
    this.#onReached?.();
    return this.#follow();
  }

  /** Takes what the stream brought, as far as a view shows it, until nothing is left. */
  async #advance(): Promise<void> {
    clearTimeout(this.#retry);
    try {
      while (!this.#closed && (this.#isStale || this.#pending.length)) await (this.#isStale ? this.#begin() : this.#step());
      this.failure = '';
    } catch (error) {
      if (this.#closed) return;
      // That the daemon is away is said beside the title.
      if (error instanceof Refusal) this.failure = sentence(error);
      this.#retry = setTimeout(() => void this.#follow(), RETRY_MS);
    }
    if (this.failure) this.loaded = true;
  }

  /** The stream is open: what is read here is joined by what it brings. */
  async #begin(): Promise<void> {
    this.#isStale = false;
    try {
      const [page, view, work] = await Promise.all([
        get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: PAGE }),
        readView(this.id, {}, null),
        get<GetRunResponseJson>(`${sessionPath(this.id)}/run`),
        this.refreshSession(), this.refreshWork(), this.refreshQuestions(), this.refreshCompactions(),
      ]);
      this.#reach(num(page.revision));
      await this.#reaching(view.revision);
      if (this.#isStale) return;
      const state = begun(page, view, work);
      this.#state = advanced(state, this.#takenOut(view.revision));
      this.#beginning = null;
      this.#readOpenDrafts();
      this.loaded = true;
      this.changes += 1;
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
  }

  async #step(): Promise<void> {
    const state = this.#state!;
    const events = this.#pending;
    if (!events.some(changesView)) {
      this.#pending = [];
      this.#state = advanced(state, events);
      return;
    }
    const view = await readView(this.id, { known_view_hash: state.view.header.viewHash, known_revision: state.view.header.revision }, state.view);
    await this.#reaching(view.revision);
    const seen = this.#pending.filter((event) => num(event.revision) <= view.revision);
    const [statuses] = await Promise.all([
      seen.some(changesStatuses) ? this.#readStatuses(view.revision) : [],
      // What a summary says of itself comes with it.
      seen.some((event) => CHANGES_COMPACTIONS.test(kindOf(event)) && changesView(event)) ? this.refreshCompactions() : undefined,
    ]);
    if (this.#isStale || this.#closed) return;
    const shown = this.#takenOut(view.revision);
    // A page of older messages may have come meanwhile.
    this.#state = advanced(this.#state!, shown, view, statuses);
    if (this.#beginning && this.asOf === null) this.#beginning = withEvents(this.#beginning, shown, statuses);
    const steps = shown.filter((event) => CHANGES_STEP.test(kindOf(event))).map((event) => num(event.revision));
    if (steps.length) this.steps = [...this.steps, ...steps];
    for (const event of shown) {
      if (event.partsClosed) this.#closeDrafts(event.partsClosed.messageId ?? '', event.partsClosed.partIds ?? []);
      if (event.messageFinished) this.#closeDrafts(event.messageFinished.messageId ?? '', null);
      if (event.compacted || event.compactionFailed || event.compactionCancelled) this.summaryDraft = null;
    }
    this.changes += 1;
  }

  /** The messages that are here, with their statuses at a revision. */
  async #readStatuses(revision: number): Promise<MessageJson[]> {
    const read: MessageJson[] = [];
    const first = num(this.history[0]?.revision);
    let token: string | undefined;
    do {
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: PAGE_MOST, page_token: token, as_of_revision: revision });
      read.push(...(page.messages ?? []));
      token = page.nextPageToken;
    } while (token && num(read.at(-1)?.revision) > first);
    if (this.#beginning && this.asOf === null) {
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { page_size: Math.min(PAGE_MOST, this.#beginning.messages.length), as_of_revision: revision });
      read.push(...(page.messages ?? []));
    }
    return read;
  }

  /** The pending events up to a revision, which are pending no longer. */
  #takenOut(revision: number): EventJson[] {
    const taken = this.#pending.filter((event) => num(event.revision) <= revision);
    this.#pending = this.#pending.filter((event) => num(event.revision) > revision);
    return taken;
  }

  #reach(revision: number): void {
    this.#reached = Math.max(this.#reached, revision);
    this.#onReached?.();
  }

  /** Waits until the history is here up to a revision, or everything is to be read again. */
  async #reaching(revision: number): Promise<void> {
    while (this.#reached < revision && !this.#isStale && !this.#closed) await new Promise<void>((done) => (this.#onReached = done));
  }

  /** Reads the page before what is there; false if there is none, or it did not come. */
  older(size = PAGE_OLDER): Promise<boolean> {
    this.#older ??= this.#readOlder(size).finally(() => (this.#older = null));
    return this.#older;
  }

  async #readOlder(size: number): Promise<boolean> {
    const pages = this.at === null ? null : this.#pages;
    const token = (pages ?? this.#state)?.olderToken;
    if (!token || this.#closed || this.#beginning) return false;
    this.loadingOlder = true;
    try {
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: size, page_token: token, as_of_revision: pages?.revision });
      if (!pages) {
        if (this.#state?.olderToken === token) this.#state = withOlder(this.#state, page);
      } else if (this.#pages === pages) {
        const known = new Set(pages.messages.map((message) => message.messageId));
        const before = [...(page.messages ?? [])].reverse().filter((message) => !known.has(message.messageId));
        this.#pages = { ...pages, messages: [...before, ...pages.messages], olderToken: page.nextPageToken ?? '' };
      }
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
    const isThere = () => this.rows.some((row) => row.key === key);
    if (!isThere()) this.#beginning = null;
    while (!isThere()) if (!(await this.older(PAGE_MOST))) return false;
    return true;
  }

  /** Shows the beginning, of which one page is read, however many are between it and what is here. */
  async toBeginning(): Promise<void> {
    if (!this.hasOlder) return;
    const { asOf } = this;
    const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { page_size: PAGE, as_of_revision: asOf });
    if (this.asOf === asOf && this.hasOlder) this.#join(page.messages ?? [], page.nextPageToken ?? '');
  }

  /** Shows the newest messages again, or those around the past revision. */
  toNewest(): void {
    this.#beginning = null;
  }

  /** Reads the page after the beginning and what follows it. */
  newer(): Promise<void> {
    this.#newer ??= this.#readNewer().finally(() => (this.#newer = null));
    return this.#newer;
  }

  async #readNewer(): Promise<void> {
    const beginning = this.#beginning;
    if (!beginning || this.#closed) return;
    try {
      const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { page_size: PAGE_OLDER, page_token: beginning.newerToken, as_of_revision: this.asOf });
      if (this.#beginning?.newerToken === beginning.newerToken) this.#join([...this.#beginning.messages, ...(page.messages ?? [])], page.nextPageToken ?? '');
    } catch (error) {
      this.failure = sentence(error);
    }
  }

  /** Takes the oldest messages: by themselves, or before the others once they reach them. */
  #join(oldest: MessageJson[], newerToken: string): void {
    const pages = this.at === null ? null : this.#pages;
    const there = pages?.messages ?? this.history;
    const first = num(there[0]?.revision);
    const isReached = !newerToken || num(oldest.at(-1)?.revision) >= first;
    this.#beginning = isReached ? null : { messages: oldest, newerToken };
    if (!isReached) {
      // Their edits are told by their statuses.
      if (!pages && this.#state) this.#state = { ...this.#state, replacements: withOlder(this.#state, { messages: [...oldest].reverse() }).replacements };
      return;
    }
    const before = { messages: oldest.filter((message) => num(message.revision) < first).reverse() };
    if (pages) this.#pages = { ...pages, messages: [...before.messages.reverse(), ...there], olderToken: '' };
    else if (this.#state) this.#state = withOlder(this.#state, before);
  }

  /** The pages around a revision: those that are there if they reach it, else its own. */
  async #pagesOf(revision: number, signal: AbortSignal): Promise<Pages | null> {
    const reaches = (messages: MessageJson[], token: string) => !token || num(messages[0]?.revision) <= revision - BEFORE;
    if (reaches(this.history, this.#state?.olderToken ?? '')) return null;
    const held = this.#pages;
    if (held && held.revision >= revision && reaches(held.messages, held.olderToken)) return held;
    const page = await get<ListMessagesResponseJson>(`${sessionPath(this.id)}/messages`, { reverse: true, page_size: PAGE, as_of_revision: revision }, signal);
    return { revision, messages: [...(page.messages ?? [])].reverse(), olderToken: page.nextPageToken ?? '' };
  }

  async #refreshSession(): Promise<void> {
    const answer = await get<{ session?: SessionJson; overWindow?: OverWindowJson; saidLines?: SaidLineJson[]; markedWords?: MarkedWordsJson[] }>(sessionPath(this.id));
    this.session = answer.session ?? null;
    this.overWindow = answer.overWindow ?? null;
    this.words = { lines: answer.saidLines ?? [], marked: answer.markedWords ?? [] };
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

  #readOpenDrafts(): void {
    for (const message of this.history.filter((one) => !one.sealedRevision && one.kind !== 'MESSAGE_KIND_RECORD')) void this.#readDrafts(message.messageId ?? '');
  }

  async #readDrafts(messageId: string): Promise<void> {
    try {
      const answer = await get<GetMessageResponseJson>(`${sessionPath(this.id)}/messages/${messageId}`);
      const encoder = new TextEncoder();
      const texts = new Map(this.drafts.get(messageId));
      for (const draft of answer.drafts ?? []) {
        const text = draft.text ?? '';
        const read = { kind: draft.kind ?? '', text, bytes: encoder.encode(text).length, tool: draft.tool ?? '', callId: draft.callId ?? '' };
        // More of it may have come by the stream meanwhile, and its part, too.
        const held = texts.get(draft.partId ?? '');
        if (!this.#hasPart(messageId, draft.partId) && !(held && held.bytes > read.bytes)) texts.set(draft.partId ?? '', read);
      }
      if (texts.size) this.drafts = new Map(this.drafts).set(messageId, texts);
    } catch {
      // A message that cannot be read now comes with its next event.
    }
  }

  /** Whether the part has closed, and its message maybe, too. */
  #hasPart(messageId: string, partId: string | undefined): boolean {
    const message = this.history.findLast((one) => one.messageId === messageId);
    return !!message?.sealedRevision || !!message?.parts?.some((part) => part.partId === partId);
  }

  #take(name: string, data: unknown): void {
    if (name === 'draft_delta') return this.#delta(data as DraftDeltaJson);
    if (name === 'summary_delta') return this.#summaryDelta(data as SummaryDeltaJson);
    if (name === 'presence_changed') {
      this.presences = (data as PresenceChangedJson).presences ?? [];
      return;
    }
    const event = data as EventJson;
    this.#pending.push(event);
    // Whoever keeps content forgets what was erased.
    if (event.erased) this.#isStale = true;
    this.#reach(num(event.revision));
    if (this.#taken) return;
    this.#taken = true;
    // What comes together is shown together.
    queueMicrotask(() => {
      this.#taken = false;
      this.#refreshBeside(this.#pending);
      void this.#follow();
    });
  }

  /** Reads what is beside history and view, and is shown as it comes. */
  #refreshBeside(events: EventJson[]): void {
    const ignore = () => undefined;
    const has = (kinds: RegExp) => events.some((event) => kinds.test(kindOf(event)));
    void this.refreshSession().catch(ignore);
    if (has(CHANGES_WORK)) void this.refreshWork().catch(ignore);
    if (has(/^approval_/)) void this.refreshQuestions().catch(ignore);
    // What changes the view has them read with it.
    if (events.some((event) => CHANGES_COMPACTIONS.test(kindOf(event)) && !changesView(event))) void this.refreshCompactions().catch(ignore);
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
    // Text of a part that has closed meanwhile comes late.
    if (this.#hasPart(messageId, partId)) return;
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
    if (revision !== this.asOf) this.#beginning = null;
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
      const [past, pages] = await Promise.all([readView(this.id, { as_of_revision: revision }, null, abort.signal), this.#pagesOf(revision, abort.signal)]);
      if (abort.signal.aborted) return;
      this.#pages = pages;
      this.past = { ...past, revision };
    } catch (error) {
      if (!abort.signal.aborted) this.pastFailure = sentence(error);
    }
  }
}
