/** What the pointer is at: a position that all charts of a capture mark, and the words shown beside it. */
import { signal } from '@preact/signals';
import type { Lens } from './lens';

export const pointed = signal<{ lens: Lens; position: number } | null>(null);

export interface Tip {
  x: number;
  y: number;
  title: string;
  lines: string[];
}

export const tip = signal<Tip | null>(null);

/** A short notice, such as that something was copied. */
export const notice = signal('');
let timer = 0;

export function notify(text: string): void {
  notice.value = text;
  window.clearTimeout(timer);
  timer = window.setTimeout(() => { notice.value = ''; }, 2500);
}

export const isHelpOpen = signal(false);
