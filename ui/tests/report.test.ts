import { describe, expect, it } from 'vitest';
import { treemapLayout } from '../src/layout/treemap';
import { areaPath, stepPath } from '../src/report/outlines';
import { sortedRows } from '../src/report/sorting';

describe('tables', () => {
  it('have rows without a value last, whichever way they are sorted, and keep the order of equal ones', () => {
    const rows = [[3], [null], [1], [3]];
    expect(sortedRows(rows, 0, false)).toEqual([2, 0, 3, 1]);
    expect(sortedRows(rows, 0, true)).toEqual([0, 3, 2, 1]);
    expect(sortedRows([['b'], ['a']], 0, false)).toEqual([1, 0]);
  });
});

describe('outlines', () => {
  it('have a gap where nothing is known, as reserved memory before the first report', () => {
    expect(stepPath([-1, 5, 6, -1, 7], 10, 2, (value) => value)).toBe('M12.00 5.00H14.00V6.00H16.00M18.00 7.00H20.00');
  });
  it('go there on the upper values and back on the lower ones', () => {
    expect(areaPath([0, 0], [4, 5], 0, 1, (value) => 10 - value)).toBe('M0.00 6.00H1.00V5.00H2.00V10.00H1.00V10.00H0.00Z');
  });
});

it.each([[[1]], [[6, 6, 4, 3, 2, 2, 1]], [[1000, 1, 1, 1]], [Array.from({ length: 40 }, (_, place) => 40 - place)]])(
  'the field of owners at the peak is filled by size: %j', (sizes) => {
    const [width, height] = [900, 300];
    const zeros = new Float64Array(sizes.length + 1);
    const whole = sizes.reduce((sum, size) => sum + size, 0);
    const tree = { names: ['', ...sizes.map(String)], parents: zeros, bytes: Float64Array.from([whole, ...sizes]), blocks: zeros, depths: zeros, keys: zeros };
    const places = treemapLayout(tree, 0, width, height);
    for (const place of places) {
      const share = sizes[place.node - 1]! / whole;
      // Fields lie a pixel apart, on whole pixels.
      expect(Math.abs(place.width * place.height - share * width * height)).toBeLessThan(3 * (place.width + place.height + 2));
      expect(place.left + place.width).toBeLessThanOrEqual(width);
      expect(place.top + place.height).toBeLessThanOrEqual(height);
    }
    places.forEach((one, number) => places.slice(0, number).forEach((other) => {
      const wide = Math.min(one.left + one.width, other.left + other.width) - Math.max(one.left, other.left);
      const high = Math.min(one.top + one.height, other.top + other.height) - Math.max(one.top, other.top);
      expect(Math.min(wide, high)).toBeLessThanOrEqual(0);
    }));
  },
);
