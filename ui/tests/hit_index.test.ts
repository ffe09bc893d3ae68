import { describe, expect, it } from 'vitest';
import { HitIndex, pointIn } from '../src/canvas/hit_index';
import { transform, type RectangleSet } from '../src/canvas/rectangles';

function rectangles(places: readonly (readonly [number, number, number, number])[]): RectangleSet {
  const column = (place: number): Float64Array => Float64Array.from(places, (one) => one[place]!);
  return { count: places.length, begin: column(0), end: column(1), low: column(2), high: column(3), colours: new Uint8Array(places.length * 4) };
}

describe('HitIndex', () => {
  it('finds the uppermost rectangle: the one that was drawn last', () => {
    const index = new HitIndex(rectangles([[0, 10, 0, 100], [2, 4, 50, 60], [3, 4, 55, 58]]));
    expect(index.at(1, 55)).toBe(0);
    expect(index.at(2, 59)).toBe(1);
    expect(index.at(3.5, 56)).toBe(2);
    expect(index.at(3.5, 99)).toBe(0);
    expect(index.at(11, 55)).toBe(-1);
    expect(index.at(5, 100)).toBe(-1);
  });

  it('finds small ones also from beside, if asked to', () => {
    const index = new HitIndex(rectangles([[0, 1000, 0, 10], [500, 501, 40, 41]]));
    expect(index.at(503, 40.5)).toBe(-1);
    expect(index.at(503, 40.5, { horizontal: 3, vertical: 1 })).toBe(1);
  });

  it('finds the same as looking at each of many', () => {
    let seed = 7;
    const random = (): number => (seed = (seed * 16807) % 2147483647) / 2147483647;
    const places = Array.from({ length: 5000 }, () => {
      const [begin, low] = [random() * 1e12, random() * 1e11];
      return [begin, begin + random() * 1e10, low, low + random() * 1e9] as const;
    });
    const index = new HitIndex(rectangles(places));
    for (let round = 0; round < 500; round += 1) {
      const [horizontal, vertical] = [random() * 1e12, random() * 1e11];
      const slow = places.findLastIndex(([begin, end, low, high]) => begin <= horizontal && horizontal < end && low <= vertical && vertical < high);
      expect(index.at(horizontal, vertical)).toBe(slow);
    }
  });

  it('is at peace with nothing, and with rectangles of no height', () => {
    expect(new HitIndex(rectangles([])).at(0, 0)).toBe(-1);
    expect(new HitIndex(rectangles([[0, 5, 3, 3]])).at(1, 3, { horizontal: 0, vertical: 1 })).toBe(0);
  });
});

it('turns points of the picture into data, and boxes into boxes', () => {
  const box = { from: 100, to: 200, low: 0, high: 10 };
  expect(pointIn(box, 0.5, 0.1, false)).toEqual({ horizontal: 150, vertical: 9 });
  expect(pointIn(box, 0.5, 0.1, true)).toEqual({ horizontal: 150, vertical: 1 });
  expect(transform(0, 100, 50, 100)).toEqual([2, -1]);
});
