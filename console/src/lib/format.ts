// Numbers, times and names, for people.

/** A 64-bit number of the JSON mapping. */
export const num = (value: string | number | undefined | null): number => (value === undefined || value === null ? 0 : Number(value));

export function count(value: number): string {
  if (value < 1000) return String(Math.round(value));
  if (value < 10_000) return `${(value / 1000).toFixed(1)}k`;
  if (value < 1_000_000) return `${Math.round(value / 1000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** A number with its noun. */
export const many = (value: number, noun: string) => `${value.toLocaleString('en-US')} ${noun}${value === 1 ? '' : 's'}`;

export const exact = (value: number) => value.toLocaleString('en-US');

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 ** 2) return `${(value / 1024).toFixed(1)} KiB`;
  if (value < 1024 ** 3) return `${(value / 1024 ** 2).toFixed(1)} MiB`;
  return `${(value / 1024 ** 3).toFixed(1)} GiB`;
}

export function usd(micro: number): string {
  if (!micro) return '';
  const dollars = micro / 1e6;
  return dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

export function age(time: string | undefined | null, now: number): string {
  if (!time) return '';
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export const clock = (time: string | undefined | null) => (time ? new Date(time).toLocaleTimeString('en-GB') : '');
export const date = (time: string | undefined | null) => (time ? new Date(time).toLocaleString('en-GB') : '');

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/** A value of an enum without its prefix, as a word. */
export const word = (value: string | undefined, prefix: string) => (value ?? '').replace(prefix, '').toLowerCase().replaceAll('_', ' ');

/** The beginning of an id, by which people tell ids apart; a UUIDv7 differs at its end. */
export const short = (id: string | undefined) => (id ? `${id.slice(0, 4)}…${id.slice(-6)}` : '');
