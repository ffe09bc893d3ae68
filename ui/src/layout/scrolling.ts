/** Which rows a scrolled table shows. Browsers cut elements off at some tens of millions of pixels, which a table of ten
    million rows exceeds: beyond that the scroll bar stands for shares of the table, and the wheel still moves by rows. */

export const TALLEST = 8_000_000;

export interface Scrolled {
  /** First row to show, with what of it is scrolled away as a fraction. */
  row: number;
  /** Where the scroll bar belongs. */
  top: number;
}

export function scrollHeight(rowCount: number, rowHeight: number): number {
  return Math.min(rowCount * rowHeight, TALLEST);
}

/** After the scroll bar moved from `before.top` to `top`. */
export function afterScroll(before: Scrolled, top: number, rowCount: number, rowHeight: number, viewport: number): Scrolled {
  const last = Math.max(rowCount - viewport / rowHeight, 0);
  const height = scrollHeight(rowCount, rowHeight);
  const most = Math.max(height - viewport, 1);
  if (rowCount * rowHeight <= TALLEST) return { row: Math.min(top / rowHeight, last), top };
  const moved = top - before.top;
  // The ends are reached for sure, and a large jump is somebody who drags the bar.
  if (top <= 0) return { row: 0, top: 0 };
  if (top >= most - 1) return { row: last, top: most };
  if (Math.abs(moved) > 2 * viewport) return { row: (top / most) * last, top };
  const row = Math.min(Math.max(before.row + moved / rowHeight, 0), last);
  return { row, top: (row / last) * most };
}

/** Where the bar stands when a row is to be first. */
export function scrollTo(row: number, rowCount: number, rowHeight: number, viewport: number): Scrolled {
  const last = Math.max(rowCount - viewport / rowHeight, 0);
  const wanted = Math.min(Math.max(row, 0), last);
  if (rowCount * rowHeight <= TALLEST) return { row: wanted, top: wanted * rowHeight };
  return { row: wanted, top: last > 0 ? (wanted / last) * Math.max(TALLEST - viewport, 1) : 0 };
}
