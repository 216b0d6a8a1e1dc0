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
