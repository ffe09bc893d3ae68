/** Which annotation the pointer is at. */

/** One that can be pointed at. */
export interface Annotation {
  from: number;
  to: number;
  text: string;
}

/** The annotation nearest to a position, within a distance. */
export function nearestAnnotation(annotations: readonly Annotation[], position: number, slack: number): Annotation | null {
  const points = annotations.filter((one) => one.from === one.to && Math.abs(one.from - position) <= slack);
  const nearest = points.sort((one, other) => Math.abs(one.from - position) - Math.abs(other.from - position))[0];
  return nearest ?? annotations.filter((one) => one.from < one.to && one.from <= position && position <= one.to).at(-1) ?? null;
}
