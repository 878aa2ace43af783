const RETRY_MS = 1_000;
const RELOAD_MS = 30_000;
const RELOADED = 'longhand-reloaded';

const pause = (time: number) => new Promise((done) => setTimeout(done, time));
let reloading: Promise<never> | undefined;

/** Loads the page again once the daemon answers, and at most twice a minute: it may be another version, with other files. */
async function reload(): Promise<never> {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  await pause(Math.max(RETRY_MS, last + RELOAD_MS - Date.now()));
  while (!(await fetch('/console/session').then(() => true, () => false))) await pause(RETRY_MS);
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
  return new Promise(() => undefined);
}

/** A module that is loaded when it is first needed. A browser asks for a module once, so that one which did not come, because
 *  the daemon was away, comes with the next page; what needs it stays as it is until then. */
export function lazily<T>(load: () => Promise<T>): Promise<T> {
  return load().catch(() => (reloading ??= reload()));
}
