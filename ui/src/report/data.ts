/** The data of a report, as `reports/html/document.py` puts them together. */

export interface Link {
  text: string;
  target: string;
  kind?: string;
}

export interface Frame {
  text: string;
  source: number | null;
  is_foreign: boolean;
  is_blamed: boolean;
}

export interface Site {
  id: string;
  label: string;
  facts: [string, string][];
  source: number | null;
  holder: { label: string; source: number } | null;
  frames: Frame[];
  more_frames: number;
  native: string[];
  more_native: number;
}

export interface Finding {
  id: string;
  kind: string;
  sentence: string;
  command: string;
  /** Where tables are about it. */
  tables: { target: string; text: string; who: string }[];
  sites: Site[];
  more_sites: number;
}

export type Cell = string | number | null;

export interface Table {
  title: string;
  headings: string[];
  kinds: string[];
  rows: Cell[][];
  more: number;
  note: string;
  /** The card of a finding about the call site of a row. */
  links: Record<number, string>;
}

export interface Answer {
  id: string;
  title: string;
  summary: string;
  missing: string[];
  tables: Table[];
}

export interface ChartData {
  is_time: boolean;
  length: number;
  moments: number[];
  most: number[];
  least: number[];
  reserved: number[] | null;
  step: number[] | null;
  owners: { name: string; bytes: number[]; is_rest: boolean }[];
  peak: { bytes: number; column: number };
  steps: { numbers: number[]; moments: number[] };
  marks: { more: number; names: string[]; moments: number[] };
  failures: { more: number; bytes: number[]; moments: number[] };
}

/** Nodes in lists, parents before children, each name once. */
export interface TreeContent {
  labels: string[];
  names: number[];
  parents: number[];
  size_bytes: number[];
  blocks: number[];
}

export interface Pool {
  id: string;
  device: string;
  pool: string;
  chart: ChartData;
  /** What the areas and fields are: owners, or call sites where no owner is known. */
  grouped_by: 'owner' | 'line';
  owners: [string, number, number][];
  trees: Record<string, TreeContent>;
  tables: Table[];
}

export interface Process {
  id: string;
  name: string;
  title: string;
  memory: Pool[];
  answers: Answer[];
  limits: string[];
}

export interface Source {
  file: string;
  line: number;
  first_line: number;
  lines: string[];
  note: string;
}

export interface Report {
  words: Record<string, string>;
  version: string;
  source: string;
  verdicts: Link[];
  facts: Link[];
  findings: Finding[];
  processes: Process[];
  more_processes: number;
  sources: Source[];
}
