/** What requests have in common: ids, pages, cursors. */

/** An id by chance. */
export function newId(prefix = ""): string {
  return prefix + crypto.randomUUID().replaceAll("-", "");
}

/** Everything on all pages; `read` reads one, and says the token of the next. */
export async function* pages<T>(read: (pageToken: string) => Promise<[T[], string]>): AsyncGenerator<T> {
  let token = "";
  do {
    const [items, next] = await read(token);
    yield* items;
    token = next;
  } while (token);
}

/** Gives a change its `requestId`, so that it can be sent again. */
export function identify(request: object): void {
  if (!("requestId" in request) || request.requestId !== "") return;
  // A stop of a whole tree has none.
  if ("tree" in request && request.tree) return;
  request.requestId = newId();
}

/** Where a stream with a cursor in every frame goes on. */
export function afterCursor(request: { afterCursor: string }, frame: { cursor: string }): void {
  request.afterCursor = frame.cursor || request.afterCursor;
}
