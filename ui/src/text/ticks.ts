/** Round numbers within a stretch of an axis, at most about `most` of them. */
export function decimalTicks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [from];
  const raw = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max([1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw) ?? raw, 1);
  return multiples(from, to, step);
}

/** Steps that are powers of two, so that labels in binary units are round. */
export function binaryTicks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [from];
  let step = 1;
  while ((to - from) / step > Math.max(most, 1)) step *= 2;
  return multiples(from, to, step);
}

function multiples(from: number, to: number, step: number): number[] {
  const ticks: number[] = [];
  for (let number = Math.ceil(from / step); number * step <= to; number += 1) ticks.push(number * step);
  return ticks;
}
