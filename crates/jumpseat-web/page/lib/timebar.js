// The window of time that a view shows: chosen, moved, followed.

import { h } from './dom.js';
import { span } from './format.js';
import { range, stamp } from './route.js';

const LENGTHS = /** @type {[number, string][]} */ ([[60, '1 min'], [300, '5 min'], [900, '15 min'], [3600, '1 h'], [21600, '6 h'], [86400, '1 day'], [604800, '7 days'], [2592000, '30 days']]);

/** How far back each view begins if nothing is said, seconds. */
export const BACK = 900;

/**
 * `length` is that of the window if the address does not say.
 * @param {import('../types').App} app
 * @param {number} length
 * @param {...Node} more what else is in the bar
 */
export function timebar(app, length, ...more) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {{ start: number, finish: number } | null} */
  let window = null;

  const lengths = h('select', { 'aria-label': 'Length of the window', onchange: () => app.go({ from: `-${lengths.value}`, to: null }) },
    ...LENGTHS.map(([seconds, text]) => h('option', { value: seconds, text: `last ${text}` })), h('option', { value: '', text: 'chosen', disabled: true }));
  const zoom = (/** @type {number} */ from, /** @type {number} */ to) => app.go({ from: stamp(from), to: stamp(to) });
  const shift = (/** @type {number} */ by) => {
    if (!window) return;
    const length = window.finish - window.start;
    zoom(window.start + by * length, window.finish + by * length);
  };
  const out = () => {
    const { from, to, live } = range(params, length);
    if (live) app.go({ from: stamp(from * 2), to: null });
    else zoom(from - (to - from) / 2, to + (to - from) / 2);
  };
  const freeze = () => {
    const { from, to, live } = range(params, length);
    if (!live) app.go({ from: `-${Math.max(1, Math.round(to - from))}`, to: null });
    else if (window) zoom(window.start, window.finish);
  };
  const pause = h('button', { type: 'button', class: 'pause', onclick: freeze });
  const when = h('p', { class: 'when' });
  const element = h('div', { class: 'bar', role: 'toolbar', 'aria-label': 'Time' },
    lengths,
    h('button', { type: 'button', 'aria-label': 'Back in time', title: 'Back ([)', onclick: () => shift(-0.5), text: '◀' }),
    h('button', { type: 'button', 'aria-label': 'Forward in time', title: 'Forward (])', onclick: () => shift(0.5), text: '▶' }),
    h('button', { type: 'button', title: 'Twice as long (-)', onclick: out, text: 'Zoom out' }),
    pause, ...more, h('span', { class: 'gap' }), when);

  return {
    element,
    zoom,
    /**
     * Shows where one is; `shown` is the window of what is on the screen.
     * @param {Record<string, string>} now
     * @param {{ start: number, finish: number } | null} shown
     */
    draw(now, shown) {
      [params, window] = [now, shown];
      const { from, to, live } = range(params, length);
      const chosen = live && !to ? String(-from) : '';
      lengths.value = LENGTHS.some(([seconds]) => String(seconds) === chosen) ? chosen : '';
      const isHost = !params.source || params.source.startsWith('host:');
      pause.textContent = live ? 'Pause' : isHost ? 'Live' : 'Latest';
      pause.title = live ? 'Stay with this window (p)' : 'Follow what is newest (p)';
      when.textContent = window ? span(window.start, window.finish) : '';
    },
    /** @param {string} key */
    key(key) {
      switch (key) {
        case 'p': freeze(); break;
        case '[': shift(-0.5); break;
        case ']': shift(0.5); break;
        case '-': out(); break;
        default: return false;
      }
      return true;
    },
    keys: /** @type {[string, string][]} */ ([['p', 'pause, or follow what is newest'], ['[ ]', 'back and forward in time'], ['-', 'twice as long a time']]),
  };
}
