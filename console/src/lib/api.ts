// Calls of the daemon over HTTP with JSON. The types are those of the protos.
import { session } from './login.svelte';
import { changeToken } from './token';

/** A refusal of the daemon, with its stable reason. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly reason: string,
    readonly metadata: Record<string, string>,
  ) {
    super(message);
  }
}

interface Status {
  message?: string;
  details?: { reason?: string; metadata?: Record<string, string> }[];
}

export async function refusal(response: Response): Promise<Refusal> {
  const text = await response.text();
  let status: Status = {};
  try {
    status = JSON.parse(text) as Status;
  } catch {
    status = { message: text.slice(0, 300) };
  }
  const info = status.details?.find((detail) => detail.reason);
  return new Refusal(status.message || response.statusText, response.status, info?.reason ?? '', info?.metadata ?? {});
}

export async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json' };
  if (method !== 'GET') headers['longhand-console-token'] = changeToken();
  if (body !== undefined) headers['content-type'] = 'application/json';
  // What was read before is held by the page itself: no cache of the browser stands between it and the daemon.
  const response = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: signal ?? null, credentials: 'same-origin', cache: 'no-store' });
  if (response.ok) return response;
  const error = await refusal(response);
  if (error.status === 401 && !path.startsWith('/console/')) session.lost();
  throw error;
}

export async function get<T>(path: string, query: Record<string, unknown> = {}, signal?: AbortSignal): Promise<T> {
  return (await send('GET', path + queryText(query), undefined, signal)).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  return (await send('POST', path, body)).json() as Promise<T>;
}

export async function patch<T>(path: string, body: unknown): Promise<T> {
  return (await send('PATCH', path, body)).json() as Promise<T>;
}

export function queryText(query: Record<string, unknown>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '' || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/** An id for a change that can be sent again. */
export function requestId(): string {
  return `console-${crypto.randomUUID()}`;
}

export const sessionPath = (id: string) => `/v1/sessions/${encodeURIComponent(id)}`;

/** Said of a call that got no answer; no longer true once the page is live again. */
export const AWAY = 'The daemon does not answer.';

const WORDS: Record<string, string> = {
  NOTHING_TO_UNDO: 'There is nothing to undo: no compaction, rewind or edit is active.',
  NOTHING_TO_REDO: 'There is nothing to redo.',
  NOTHING_TO_COMPACT: 'There is nothing to compact yet.',
};

/** A sentence about a failure, for people. */
export function sentence(error: unknown): string {
  if (error instanceof Refusal) return WORDS[error.reason] ?? (error.reason ? `${error.message} (${error.reason})` : error.message);
  if (error instanceof TypeError) return AWAY;
  return error instanceof Error ? error.message : String(error);
}
