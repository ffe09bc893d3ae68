/** The answers of the server, as PROTOCOL.md describes them. */
import type { AxisName } from '../text/numbers';

export interface Place {
  row: number;
  sequence: number;
  time: number | null;
  events: number;
}

export interface Pool {
  pool: number;
  name: string;
  device: string;
  word: string;
  peak_bytes: number;
  peak: Place;
  block_count: number;
  has_reserved: boolean;
  base_address: string;
  address_bytes: number;
  has_segments: boolean;
}

export interface Process {
  process: number;
  name: string;
  source: string;
  form: string;
  program: string | null;
  process_id: number | null;
  begin_ns: string | null;
  axis: { has_times: boolean; length: Record<AxisName, number> };
  counts: { events: number; blocks: number; steps: number };
  pools: Pool[];
  groupings: string[];
  /** Whether any owner says more than which pool a block is of. */
  knows_owners: boolean;
  has_calls: boolean;
  problems: string[];
  notes: string[];
}

export interface VerdictLink {
  text: string;
  table: string | null;
  site: string | null;
}

export interface Verdict {
  process: number;
  severity: 'bad' | 'warning' | 'good' | 'note';
  text: string;
  detail: string | null;
  links: VerdictLink[];
}

export interface TableColumn {
  column: string;
  label: string;
  kind: string;
  filter: 'range' | 'text' | 'choice' | null;
  choices?: string[] | null;
}

export interface Session {
  version: string;
  processes: Process[];
  tables: { blocks: TableColumn[]; events: TableColumn[] };
}

export interface Group {
  name: string;
  is_rest: boolean;
  key: number | null;
}

export interface MemoryInfo {
  from: number;
  to: number;
  by: string;
  groups: Group[];
  window_peak: { bytes: number; row: number; position: number; sequence: number } | null;
  python: string;
}

interface Several<Item> {
  more: number;
  items: Item[];
}

export interface Mark {
  position: number;
  row: number;
  text: string;
}

export interface Marks {
  steps: Several<{ position: number; end: number | null; row: number; number: number }>;
  marks: Several<Mark>;
  ranges: Several<{ position: number; end: number; text: string }>;
  snapshots: Several<Mark>;
  failures: Several<Mark & { bytes: number }>;
}

export interface BlocksInfo {
  shown: number;
  small: { blocks: number; bytes: number; byte_share: number };
  colours: { name: string; key: number | null }[];
  low: number;
  high: number;
  python: string;
  small_columns: { position: number[]; bytes: number[] } | null;
}

export interface StackFrame {
  text: string;
  file: string | null;
  line: number | null;
  is_program: boolean;
}

export interface HistoryBlock {
  block: number;
  size: number;
  begin: Place;
  end: Place | null;
}

export interface BlockDetail {
  block: number;
  size: number;
  address: string;
  pool: string;
  begin: Place;
  end: Place | null;
  owner?: string | null;
  operator?: string | null;
  module?: string | null;
  thread?: string | number | null;
  stream?: string | number | null;
  requested_bytes?: number | null;
  label?: string | null;
  stack: StackFrame[];
  native_stack?: string[];
  free_stack?: StackFrame[];
  first_access: Place | null;
  last_access: Place | null;
  history: { earlier: HistoryBlock[]; later: HistoryBlock[]; count: number };
  python: string;
}

export interface Moment {
  row: number;
  sequence: number;
  position: number;
  in_use_bytes: number;
  block_count: number;
  block: number | null;
}

export interface TreeInfo {
  unit: 'bytes' | 'byte-seconds';
  row: number | null;
  total: number;
  node_count: number;
  python: string;
}

export interface DifferenceInfo {
  more: { groups: number; bytes: number; other_bytes: number };
  total: { bytes: number; other_bytes: number };
  python: string;
}

export interface Segment {
  address: string;
  size: number;
  in_use_bytes: number;
  free_bytes: number;
  largest_gap_bytes: number;
  pin: { block: number; size: number; site: string | null; is_freed: boolean; age_ns: number | null } | null;
}

export interface SegmentsInfo {
  segments: Segment[];
  totals: Record<string, number>;
  notes: string[];
  python: string;
}

export interface CallsInfo {
  tracks: { name: string; kind: string; depth: number }[];
  small: { calls: number };
  python: string;
}

export interface TableInfo {
  total: number;
  matching: number;
  offset: number;
  python: string;
}

export interface Finding {
  question: string;
  title: string;
  summary?: string | null;
  missing?: string[];
  tables: {
    title: string;
    note: string | null;
    columns: { label: string; kind: string }[];
    rows: (string | number | boolean | null)[][];
    more: number;
    sites: (string | null)[];
  }[];
}

export interface SourceExcerpt {
  file: string;
  line: number;
  first_line: number;
  lines: string[];
  note: string | null;
}
