// Questions to the server.

/** What went wrong, in words for people. */
export class Refused extends Error {}

/**
 * Asks, and gives the answer.
 * @template T
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function ask(path, params = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  let response;
  try {
    response = await fetch(text ? `${path}?${text}` : path, { signal: signal ?? null });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Refused('jumpseat web does not answer');
  }
  let body;
  try {
    body = await response.json();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Refused(`${response.status} ${response.statusText}`);
  }
  if (!response.ok) throw new Refused(body.error ?? body.message ?? `${response.status} ${response.statusText}`);
  return body;
}

/**
 * Whether a question was taken back: no error.
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === 'AbortError';
}

/**
 * In words.
 * @param {unknown} error
 */
export function words(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Calls `turn` again and again, while the page is looked at: one call at a time, each with a signal that ends it.
 * `turn` gives the seconds to the next, or nothing if there is none.
 * @param {(signal: AbortSignal) => Promise<number | null>} turn
 */
export function poll(turn) {
  let stop = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let closed = false;
  const run = async () => {
    clearTimeout(timer);
    stop.abort();
    const mine = new AbortController();
    stop = mine;
    /** @type {number | null} */
    let pause = 5;
    try {
      pause = await turn(mine.signal);
    } catch (error) {
      if (!isAbort(error)) console.warn(error);
    }
    if (closed || mine.signal.aborted || pause === null) return;
    timer = setTimeout(() => (document.hidden ? undefined : run()), pause * 1000);
  };
  const seen = () => { if (!document.hidden && !closed) run(); };
  document.addEventListener('visibilitychange', seen);
  run();
  return {
    /** Now, and from then on. */
    now: run,
    close() {
      closed = true;
      clearTimeout(timer);
      stop.abort();
      document.removeEventListener('visibilitychange', seen);
    },
  };
}
