import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, duration, number, unit } from '../lib/format.js';

const decimal = { style: 'decimal', whole: false };

test('numbers are those of jumpseat top', () => {
  // As in crates/jumpseat-tools/src/measure.rs.
  const check = (value, shown, text) => assert.equal(number(value, shown), text);
  check(3, decimal, '3.00');
  check(1.5 * 1024, { style: 'binary', whole: false }, '1.50K');
  check(0.421, { style: 'percent', whole: false }, '42.1%');
  check(2, { style: 'percent', whole: false }, '200%');
  check(7, { style: 'decimal', whole: true }, '7');
  check(123456, { style: 'decimal', whole: true }, '123k');
  check(3 * 1024 ** 3, { style: 'binary', whole: true }, '3.00G');
  check(93784, { style: 'duration', whole: true }, '1d02h');
  check(12.5e-6, { style: 'duration', whole: false }, '12.5us');
  check(0.0001, decimal, '1e-4');
  check(1e30, decimal, '1e30');
  check(NaN, decimal, 'nan');
  check(null, decimal, '–');
});

test('no number is wider than seven letters', () => {
  for (let value = 1e-30; value < 1e40; value *= 1.7) {
    for (const style of ['decimal', 'binary', 'duration', 'percent']) {
      for (const factor of [1, 0.9996, 1.0234, -0.09996]) {
        const text = number(value * factor, { style, whole: false });
        assert.ok(text.length <= 8, `${text} of ${value * factor}`);
      }
    }
  }
});

test('durations are readable', () => {
  const texts = [59.99, 61, 3599.9, 3600, 86399, 1e8, -90, 0].map(duration);
  assert.deepEqual(texts, ['60.0s', '1m01s', '59m59s', '1h00m', '23h59m', '1157d', '-1m30s', '0']);
  assert.equal(ago(1), 'just now');
  assert.equal(ago(61), '1m01s ago');
  assert.equal(bytes(2048), '2.00KB');
});

test('a duration and a share have their unit in them', () => {
  const shown = (style, text) => unit({ style, unit: text, whole: false, rate: true, semantics: 'counter' });
  assert.equal(shown('binary', 'byte / sec'), 'byte/s');
  assert.equal(shown('percent', 'util'), '');
  assert.equal(shown('duration', 'time'), '');
});
