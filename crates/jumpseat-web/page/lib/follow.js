// What a view of a source shows, kept up to date.

import { ask, isAbort, poll, words } from './api.js';
import { range } from './route.js';

/**
 * Polls what a view shows of its source, and draws it: again while the view follows what happens.
 * @template T
 * @param {{
 *   params: () => Record<string, string>,
 *   back: number,
 *   every: number,
 *   path: string,
 *   wanted: (params: Record<string, string>) => Record<string, string | undefined>,
 *   show: (answer: T | null, trouble: string) => void,
 * }} view `back`: the seconds that it shows if nothing is said; `every`: between two questions; `wanted`: what is asked besides source and window;
 * `show`: an answer, or without one the trouble
 */
export function follow({ params, back, every, path, wanted, show }) {
  return poll(async (signal) => {
    const now = params();
    if (!now.source) return 1;
    const { from, to, live } = range(now, back);
    /** @type {T} */
    let answer;
    try {
      answer = await ask(path, { source: now.source, start: from, finish: to, ...wanted(now) }, signal);
    } catch (failure) {
      if (isAbort(failure)) throw failure;
      show(null, words(failure));
      return live ? 5 : null;
    }
    show(answer, '');
    return live && now.source.startsWith('host:') ? every : null;
  });
}
