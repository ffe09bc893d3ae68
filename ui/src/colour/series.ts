/** Gives each group one colour: the same in every view, at every zoom, and whenever the same recording is looked at. */
import { REST_COLOUR, SERIES, SOFT } from './palette';

const ranks = new Map<string, Map<string, number>>();

/** Says which groups of a grouping come first: they get the colours that are told apart best. Those that have a rank keep it. */
export function rankGroups(by: string, names: readonly string[]): void {
  let known = ranks.get(by);
  if (!known) ranks.set(by, (known = new Map()));
  for (const name of names) if (!known.has(name)) known.set(name, known.size);
}

/** The colour of a group of a grouping: by its rank, and without one by its name. Never by what was asked for before. */
export function colourOfGroup(by: string, name: string, isRest = false): string {
  return isRest ? REST_COLOUR : SERIES[(ranks.get(by)?.get(name) ?? hashOf(name)) % SERIES.length]!;
}

/** A function has one colour wherever it is called: from its name without the line. */
export function colourOfName(name: string): string {
  return SOFT[hashOf(name.replace(/\(\d+\)/, '')) % SOFT.length]!;
}

function hashOf(name: string): number {
  let hash = 0;
  for (let place = 0; place < name.length; place += 1) hash = (hash * 31 + name.charCodeAt(place)) % 99991;
  return hash;
}
