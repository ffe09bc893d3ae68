/** Gives each group one colour, the same in every view and at every zoom. */
import { REST_COLOUR, SERIES, SOFT } from './palette';

const given = new Map<string, Map<string, string>>();

/** The colour of a group of a grouping; groups get theirs in the order in which they are first asked for. */
export function colourOfGroup(by: string, name: string, isRest = false): string {
  if (isRest) return REST_COLOUR;
  let colours = given.get(by);
  if (!colours) given.set(by, (colours = new Map()));
  let colour = colours.get(name);
  if (!colour) colours.set(name, (colour = SERIES[colours.size % SERIES.length]!));
  return colour;
}

/** A function has one colour wherever it is called: from its name without the line. */
export function colourOfName(name: string): string {
  const called = name.replace(/\(\d+\)/, '');
  let hash = 0;
  for (let place = 0; place < called.length; place += 1) hash = (hash * 31 + called.charCodeAt(place)) % 99991;
  return SOFT[hash % SOFT.length]!;
}
