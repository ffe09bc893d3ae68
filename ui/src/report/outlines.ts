/** Outlines of values over columns, as paths with steps. */

export type HeightOf = (value: number) => number;

/** Columns are `width` wide; there is a gap where a value is not known, which is below 0. */
export function stepPath(values: readonly number[], left: number, width: number, heightOf: HeightOf): string {
  const parts: string[] = [];
  let isOpen = false;
  values.forEach((value, column) => {
    if (value < 0) {
      isOpen = false;
      return;
    }
    const from = (left + column * width).toFixed(2);
    const to = (left + (column + 1) * width).toFixed(2);
    const height = heightOf(value).toFixed(2);
    parts.push(isOpen ? `V${height}H${to}` : `M${from} ${height}H${to}`);
    isOpen = true;
  });
  return parts.join('');
}

/** The area between two such outlines. */
export function areaPath(lower: readonly number[], upper: readonly number[], left: number, width: number, heightOf: HeightOf): string {
  const back: string[] = [];
  for (let column = lower.length - 1; column >= 0; column -= 1) {
    back.push(`V${heightOf(lower[column]!).toFixed(2)}H${(left + column * width).toFixed(2)}`);
  }
  return `${stepPath(upper, left, width, heightOf)}${back.join('')}Z`;
}
