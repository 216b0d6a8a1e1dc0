// A long list of which only the rows on the screen are there.

import { h, set } from './dom.js';

/** Rows above and below the screen. */
const SPARE = 8;

/**
 * A list of rows of the same height. `row` makes one; `chosen` is told which is selected, and whether to open it.
 * @param {{
 *   role: 'grid' | 'treegrid' | 'listbox', label: string, height: number,
 *   row: (at: number) => HTMLElement,
 *   chosen?: (at: number, open: boolean) => void,
 *   near?: (last: number) => void,
 *   key?: (key: string, at: number) => boolean,
 * }} options
 */
export function list({ role, label, height, row, chosen, near, key }) {
  let count = 0;
  let selected = -1;
  /** @type {Map<number, HTMLElement>} */
  let shown = new Map();
  const space = h('div', { class: 'space', role: role === 'listbox' ? 'presentation' : 'rowgroup' });
  const element = h('div', { class: 'list', role, tabindex: '0', 'aria-label': label }, space);
  const id = `list-${Math.random().toString(36).slice(2)}`;
  let due = false;

  const draw = () => {
    due = false;
    const first = Math.max(0, Math.floor(element.scrollTop / height) - SPARE);
    const last = Math.min(count, Math.ceil((element.scrollTop + element.clientHeight) / height) + SPARE);
    for (const [at, old] of shown) {
      if (at < first || at >= last) {
        old.remove();
        shown.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) {
      if (shown.has(at)) continue;
      const made = row(at);
      made.style.transform = `translateY(${at * height}px)`;
      set(made, { id: `${id}-${at}`, 'aria-rowindex': at + 1, 'aria-selected': String(at === selected), role: role === 'listbox' ? 'option' : 'row' });
      made.addEventListener('click', (event) => {
        if (!/** @type {HTMLElement} */ (event.target).closest('button, a')) select(at, true);
      });
      shown.set(at, made);
      space.append(made);
    }
    near?.(last);
  };
  const soon = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(draw);
  };
  const select = (/** @type {number} */ at, open = false) => {
    if (!count) return;
    const now = Math.max(0, Math.min(count - 1, at));
    shown.get(selected)?.setAttribute('aria-selected', 'false');
    selected = now;
    const [top, bottom] = [now * height, (now + 1) * height];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
    draw();
    shown.get(now)?.setAttribute('aria-selected', 'true');
    set(element, { 'aria-activedescendant': `${id}-${now}` });
    chosen?.(now, open);
  };

  element.addEventListener('scroll', soon, { passive: true });
  element.addEventListener('keydown', (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / height) - 1);
    const to = { ArrowDown: selected + 1, ArrowUp: selected < 0 ? 0 : selected - 1, PageDown: selected + page, PageUp: selected - page, Home: 0, End: count - 1 }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== element) return;
    if (to !== undefined) select(to);
    else if (event.key === 'Enter' && selected >= 0) select(selected, true);
    else if (!key?.(event.key, selected)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  const observer = new ResizeObserver(soon);
  observer.observe(element);

  return {
    element,
    select,
    selected: () => selected,
    /** Whether the first row is on the screen. */
    atTop: () => element.scrollTop < height,
    /**
     * There are so many rows now, which may be others. `added` came in front: what is on the screen stays there, unless that is the top.
     * @param {number} now
     * @param {number} [added]
     */
    update(now, added = 0) {
      const top = element.scrollTop;
      count = now;
      for (const old of shown.values()) old.remove();
      shown = new Map();
      if (selected >= 0) selected = Math.min(selected + added, count - 1);
      space.style.height = `${count * height}px`;
      set(element, { 'aria-rowcount': count, 'aria-activedescendant': selected >= 0 ? `${id}-${selected}` : null });
      if (added && top >= height) element.scrollTop = top + added * height;
      draw();
    },
    /** Nothing is selected any more, and the top is shown. */
    reset() {
      selected = -1;
      element.scrollTop = 0;
    },
    close: () => observer.disconnect(),
  };
}
