/** The words of the page in the language of the reader. */
import { language } from '../state/preferences';
import { WORDS } from './words';

export type WordKey = keyof typeof WORDS;

export function say(key: WordKey, values: Record<string, string | number> = {}): string {
  const text = WORDS[key][language.value === 'zh' ? 1 : 0];
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A word that the server names, such as a grouping; shown as it is where there is no word for it. */
export function sayNamed(prefix: string, name: string): string {
  const key = `${prefix}_${name}`;
  return Object.hasOwn(WORDS, key) ? say(key as WordKey) : name;
}
