// A text field that goes on with names of metrics.

import { ask, isAbort } from './api.js';
import { fill, h, set } from './dom.js';

/** @typedef {import('../types').Names} Names */
/** @typedef {import('../types').Name} Name */

let serial = 0;

/**
 * The field, with its list. `source` says where names come from; `done` takes what was entered.
 * @param {{ label: string, placeholder: string, source: () => string, done: (text: string) => void }} options
 */
export function complete({ label, placeholder, source, done }) {
  const id = `names-${++serial}`;
  const list = h('ul', { id, role: 'listbox', class: 'options', 'aria-label': 'Names', hidden: true });
  const input = h('input', {
    type: 'text', role: 'combobox', 'aria-expanded': 'false', 'aria-controls': id, 'aria-autocomplete': 'list',
    'aria-label': label, placeholder, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off',
  });
  /** @type {Name[]} */
  let names = [];
  let active = -1;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let stop = new AbortController();

  const close = () => {
    clearTimeout(timer);
    stop.abort();
    names = [];
    active = -1;
    list.hidden = true;
    set(input, { 'aria-expanded': 'false', 'aria-activedescendant': null });
  };

  const choose = (/** @type {Name} */ name) => {
    const { before } = word(input.value);
    input.value = before + name.name + (name.leaf ? '' : '.');
    input.focus();
    if (name.leaf) close();
    else look();
  };

  const draw = () => {
    fill(list, ...names.map((name, at) => h('li', {
      id: `${id}-${at}`, role: 'option', 'aria-selected': String(at === active),
      onmousedown: (/** @type {Event} */ event) => { event.preventDefault(); choose(name); },
    }, h('span', { class: 'name', text: name.name + (name.leaf ? '' : '.') }), h('span', { class: 'dim', text: name.help ?? '' }))));
    list.hidden = !names.length;
    set(input, {
      'aria-expanded': String(!list.hidden), 'aria-activedescendant': active >= 0 ? `${id}-${active}` : null,
    });
    list.children[active]?.scrollIntoView({ block: 'nearest' });
  };

  const look = () => {
    clearTimeout(timer);
    stop.abort();
    timer = setTimeout(async () => {
      const mine = new AbortController();
      stop = mine;
      try {
        /** @type {Names} */
        const found = await ask('/page/names', { source: source(), prefix: word(input.value).word }, mine.signal);
        if (mine.signal.aborted || document.activeElement !== input) return;
        names = found.names;
        active = -1;
        draw();
      } catch (error) {
        // A field without help is a field all the same.
        if (!isAbort(error)) close();
      }
    }, 80);
  };

  const move = (/** @type {number} */ by) => {
    if (!names.length) return look();
    active = (active + by + names.length + (active < 0 && by < 0 ? 1 : 0)) % names.length;
    draw();
  };

  input.addEventListener('input', look);
  input.addEventListener('focus', look);
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    const name = names[active];
    switch (event.key) {
      case 'ArrowDown': move(1); break;
      case 'ArrowUp': move(-1); break;
      case 'Escape':
        if (list.hidden) return;
        close();
        break;
      case 'Tab': {
        // As in a shell: what all have in common; the one that there is.
        const common = name ? name.name : begin(names.map((one) => one.name + (one.leaf ? '' : '.')));
        const { before, word: typed } = word(input.value);
        if (event.shiftKey || list.hidden || common.length <= typed.length || !common.startsWith(typed)) return;
        if (name) choose(name);
        else { input.value = before + common; look(); }
        break;
      }
      case 'Enter':
        if (name) choose(name);
        else if (input.value.trim()) {
          done(input.value.trim());
          input.value = '';
          close();
        }
        break;
      default: return;
    }
    event.preventDefault();
  });

  const element = h('div', { class: 'combo' }, input, list);
  return { element, input, enter: () => { if (input.value.trim()) { done(input.value.trim()); input.value = ''; close(); } } };
}

/**
 * What is being typed at the end of a text, and what is before it.
 * @param {string} text
 */
export function word(text) {
  const at = text.search(/[\p{L}\p{N}._-]*$/u);
  return { before: text.slice(0, at), word: text.slice(at) };
}

/**
 * What all texts begin with.
 * @param {string[]} texts
 */
export function begin(texts) {
  return texts.reduce((common, text) => {
    let at = 0;
    while (at < common.length && common[at] === text[at]) at += 1;
    return common.slice(0, at);
  }, texts[0] ?? '');
}
