// What the server answers: crates/jumpseat-web/src/server/page. Times are seconds since the epoch.

export interface Condition {
  state: 'up' | 'down' | 'unknown';
  since: number | null;
  problem?: string;
  host: string | null;
}

export interface Host extends Condition {
  source: string;
  name: string;
  archives: number;
}

export interface Archive {
  source: string;
  name: string;
  host: string;
  zone: string;
  start: number;
  last: number;
  bytes: number;
  growing: boolean;
}

export interface Hosts {
  version: string;
  now: number;
  hosts: Host[];
  archives: Archive[];
  left_out: number;
  problems: string[];
}

export interface Name {
  name: string;
  leaf: boolean;
  help?: string;
}

export interface Names {
  names: Name[];
  more: boolean;
}

export type Style = 'decimal' | 'binary' | 'duration' | 'percent';

/** How values of a metric are shown. */
export interface Shown {
  unit: string;
  style: Style;
  whole: boolean;
  rate: boolean;
  semantics: 'counter' | 'instant' | 'discrete';
}

export interface Line {
  inst: number;
  name: string;
  t: number[];
  avg: (number | null)[];
  min?: (number | null)[];
  max?: (number | null)[];
}

export interface Series {
  expr: string;
  error?: string;
  shown?: Shown;
  lines: Line[];
  texts?: { name: string; text: string }[];
  left_out: number;
  interpolated?: boolean;
}

export interface Samples {
  start: number;
  finish: number;
  last: number | null;
  host?: Condition;
  series: Series[];
}

/** Where the page is: a view, and what it shows. */
export interface Route {
  view: string;
  params: Record<string, string>;
}

/** What views are given. */
export interface App {
  /** The newest answer about hosts and archives. */
  hosts(): Hosts | null;
  /** Changes parameters of the address; empty ones go. */
  go(params: Record<string, string | null>, replace?: boolean): void;
  /** Says something to those who do not see the page, and in the status line. */
  say(text: string): void;
  /** Whether the ground is dark. */
  dark(): boolean;
}

/** A view that is shown. */
export interface View {
  element: HTMLElement;
  /** Other parameters, or the same again. */
  show(params: Record<string, string>): void;
  /** Hosts and archives have been asked for again, or colours have changed. */
  refresh?(): void;
  /** A key that nothing else has taken. True if it means something here. */
  key?(key: string): boolean;
  keys?: [string, string][];
  close(): void;
}

export type Value = string | number | boolean;

/** An event record. */
export interface Event {
  /** Nanoseconds since the epoch. */
  time: string;
  source: string;
  missed?: number;
  flags: ('start' | 'end' | 'point')[];
  failed: boolean;
  span?: string;
  trace?: string;
  fields: [string, Value][];
}

export interface Events {
  start: number;
  finish: number;
  records: Event[];
  total: number;
  missed: number;
  counts: [number, number][];
  fields: string[];
  next?: number;
  gone?: number;
  problems: string[];
}

export interface Summary {
  id: string;
  start: number;
  duration: number;
  service: string;
  name: string;
  spans: number;
  errors: number;
  services: Record<string, number>;
  complete: boolean;
}

export interface Traces {
  start: number;
  finish: number;
  traces: Summary[];
  total: number;
  services: Record<string, string[]>;
  problems: string[];
}

/** A span of a waterfall; times are seconds since the start of its trace. */
export interface Span {
  id: string;
  depth: number;
  service: string;
  host: string;
  source: string;
  name: string;
  kind?: string;
  start: number;
  duration: number;
  own: number;
  failed: boolean;
  ended: boolean;
  children: number;
  critical: [number, number][];
  fields: [string, Value][];
  points: { at: number; failed: boolean; fields: [string, Value][] }[];
  note?: string;
}

export interface Trace {
  id: string;
  start: number;
  duration: number;
  spans: Span[];
  left_out: number;
  problems: string[];
}

export interface Stats {
  count: number;
  errors: number;
  rate: number;
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

export interface Cell {
  column: number;
  row: number;
  count: number;
  errors: number;
  trace: string;
  at: number;
}

export interface Heat {
  step: number;
  rows: number[];
  cells: Cell[];
  p50: (number | null)[];
  p95: (number | null)[];
  p99: (number | null)[];
}

export interface Spans {
  start: number;
  finish: number;
  total: number;
  names: ({ service: string; name: string } & Stats)[];
  heat: Heat;
  services: ({ service: string } & Stats)[];
  calls: ({ from: string; to: string } & Stats)[];
  problems: string[];
}

export interface Frame {
  name: string;
  total: number;
  own: number;
  count: number;
  errors: number;
  children: Frame[];
}

export interface Flames {
  start: number;
  finish: number;
  traces: number;
  root: Frame;
  problems: string[];
}
