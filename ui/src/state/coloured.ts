/** Answers whose groups have colours: they wait until it is known which groups of the whole recording are the largest. */
import { rankGroups } from '../colour/series';
import { Answer } from '../protocol/answer';
import { askFrame, type Question } from '../protocol/ask';
import type { Frame } from '../protocol/frame';
import type { MemoryInfo } from '../protocol/types';
import { session } from './lens';

const MOST_POOLS = 8;
const MOST_GROUPS = 40;
const OWNER = 'owner';
/** What is coloured in the treemap of owners: their second parts. */
export const OWNER_PARTS = 'owner-parts';

const ranked = new Map<string, Promise<void>>();

/** A frame that is ready once the groups of a grouping have their ranks; a grouping that processes do not have has none. */
export function colouredAnswer<Info>(question: () => Question | null, groupingOf: (question: Question) => string): Answer<Frame<Info>> {
  return new Answer(question, async (asked, abort) => {
    const [frame] = await Promise.all([askFrame<Info>(asked, abort), whenRanked(groupingOf(asked))]);
    return frame;
  });
}

function whenRanked(by: string): Promise<void> {
  let waiting = ranked.get(by);
  if (!waiting) ranked.set(by, (waiting = rank(by)));
  return waiting;
}

/** Ranks the groups of the first pools of all processes, whatever is shown of them, each pool's by size. */
async function rank(by: string): Promise<void> {
  const pools = (session.value?.processes ?? []).filter((process) => process.groupings.includes(by))
    .flatMap((process) => process.pools.map((pool) => ({ process: process.process, pool: pool.pool })))
    .slice(0, MOST_POOLS);
  // A pool that cannot be asked leaves its groups to their names; the views say by themselves what is wrong.
  const answers = await Promise.allSettled(pools.map((pool) => askFrame<MemoryInfo>({
    path: 'memory', parameters: { ...pool, by, axis: 'events', columns: 1, groups: MOST_GROUPS },
  })));
  for (const answer of answers) {
    if (answer.status === 'rejected') continue;
    const names = answer.value.info.groups.filter((group) => !group.is_rest).map((group) => group.name);
    rankGroups(by, names);
    if (by === OWNER) rankGroups(OWNER_PARTS, names.map((name) => name.split('@').slice(0, 2).at(-1)!));
  }
}
