/** The rows of a table that have been read, page by page. */
import { signal } from '@preact/signals';
import { askFrame, ProblemError, type Parameters, type Problem } from '../protocol/ask';
import type { FrameTable } from '../protocol/frame';
import type { TableInfo } from '../protocol/types';

export const PAGE = 200;
const KEPT_PAGES = 60;

export class TablePages {
  /** Changes whenever there is more to draw. */
  readonly version = signal(0);
  readonly info = signal<TableInfo | null>(null);
  readonly problem = signal<Problem | null>(null);

  private pages = new Map<number, FrameTable>();
  private asked = new Map<number, AbortController>();
  private parameters: Parameters | null = null;
  private key = '';

  /** Begins anew where the question is another one. */
  follow(parameters: Parameters | null): void {
    const key = JSON.stringify(parameters);
    if (key === this.key) return;
    this.key = key;
    this.dispose();
    this.pages = new Map();
    this.parameters = parameters;
    this.problem.value = null;
    this.want(0, 0);
  }

  dispose(): void {
    for (const abort of this.asked.values()) abort.abort();
    this.asked.clear();
  }

  cell(row: number, column: string): string | number | boolean | null | undefined {
    const page = this.pages.get(Math.floor(row / PAGE));
    return page && row % PAGE < page.rowCount ? page.cell(column, row % PAGE) : undefined;
  }

  /** Asks for the pages of some rows, and for no others any more. */
  want(first: number, last: number): void {
    const pages = new Set<number>();
    for (let page = Math.floor(Math.max(first, 0) / PAGE); page <= Math.floor(last / PAGE); page += 1) pages.add(page);
    for (const [page, abort] of this.asked) {
      if (pages.has(page)) continue;
      abort.abort();
      this.asked.delete(page);
    }
    for (const page of pages) if (!this.pages.has(page) && !this.asked.has(page)) void this.ask(page);
  }

  private async ask(page: number): Promise<void> {
    if (!this.parameters) return;
    const abort = new AbortController();
    this.asked.set(page, abort);
    try {
      const { info, table } = await askFrame<TableInfo>(
        { path: 'table', parameters: { ...this.parameters, offset: page * PAGE, limit: PAGE } }, abort.signal,
      );
      if (abort.signal.aborted) return;
      this.pages.set(page, table);
      const oldest = this.pages.keys().next().value;
      if (this.pages.size > KEPT_PAGES && oldest !== undefined) this.pages.delete(oldest);
      this.info.value = info;
      this.problem.value = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.info.value = null;
      this.problem.value = error instanceof ProblemError ? error.problem : { message: String(error), hint: null, isStopped: false };
    }
    if (this.asked.get(page) === abort) this.asked.delete(page);
    this.version.value += 1;
  }
}
