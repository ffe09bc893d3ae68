/** The order of the rows of a table. */
import type { Cell } from './data';

/** Row numbers in the order of one column; rows without a value come last whichever way it goes. */
export function sortedRows(rows: readonly (readonly Cell[])[], column: number, isDescending: boolean): number[] {
  const direction = isDescending ? -1 : 1;
  return rows.map((_, number) => number).sort((one, other) => {
    const first = rows[one]![column] ?? null;
    const second = rows[other]![column] ?? null;
    if (first === null || second === null) return Number(first === null) - Number(second === null) || one - other;
    if (first === second) return one - other;
    return first < second ? -direction : direction;
  });
}
