import { describe, expect, it } from 'vitest';
import { contrast, FAILED_COLOUR, hexOf, labelOn, luminance, MARK_COLOUR, REST_COLOUR, rgbOf, sequential, SERIES, SOFT, THEMES } from '../src/colour/palette';
import { colourOfGroup, colourOfName, rankGroups } from '../src/colour/series';

describe('contrast', () => {
  it('is that of WCAG', () => {
    expect(contrast('#000000', '#ffffff')).toBeCloseTo(21);
    expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 1);
  });

  it.each(Object.entries(THEMES))('is enough for every word of the %s theme', (_, theme) => {
    for (const ground of [theme.ground, theme.raised]) {
      for (const ink of [theme.ink, theme.quiet, theme.link]) expect(contrast(ink, ground)).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(theme.ink, theme.hit)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme.alarm, theme.alarmGround)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme.warning, theme.warningGround)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme.fine, theme.fineGround)).toBeGreaterThanOrEqual(4.5);
    for (const ground of [theme.alarmGround, theme.warningGround, theme.fineGround]) expect(contrast(theme.link, ground)).toBeGreaterThanOrEqual(4.5);
  });

  it('is enough for a label upon any colour of data', () => {
    for (const theme of Object.values(THEMES)) expect(contrast(MARK_COLOUR, theme.ground)).toBeGreaterThanOrEqual(3);
    for (const colour of [...SERIES, ...SOFT, REST_COLOUR, FAILED_COLOUR]) expect(contrast(labelOn(colour), colour)).toBeGreaterThanOrEqual(4.5);
  });
});

/** What eyes without red or green cones see of a colour (Viénot, Brettel, Mollon 1999, in linear light). */
function seen(hex: string, isProtan: boolean): number[] {
  const linear = rgbOf(hex).map((part) => (part / 255) ** 2.2) as [number, number, number];
  const [red, green, blue] = linear;
  const mixed = isProtan ? 0.11238 * red + 0.88762 * green : 0.29275 * red + 0.70725 * green;
  return [mixed, isProtan ? 0.00401 * (red - green) + blue : -0.02234 * (red - green) + blue].map((part) => Math.max(part, 0) ** (1 / 2.2) * 255);
}

it('keeps the first seven series apart for colour-blind eyes', () => {
  for (const isProtan of [true, false]) {
    for (let one = 0; one < 7; one += 1) {
      for (let other = 0; other < one; other += 1) {
        const [first, second] = [seen(SERIES[one]!, isProtan), seen(SERIES[other]!, isProtan)];
        expect(Math.hypot(...first.map((part, place) => part - second[place]!)), `${one} and ${other}`).toBeGreaterThan(20);
      }
    }
  }
});

it('has a scale that grows lighter all the way', () => {
  const lightness = Array.from({ length: 64 }, (_, place) => luminance(sequential(place / 63)));
  for (let place = 1; place < lightness.length; place += 1) expect(lightness[place]).toBeGreaterThan(lightness[place - 1]!);
  expect(hexOf(sequential(-1))).toBe(hexOf(sequential(0)));
  expect(hexOf(sequential(2))).toBe('#fde725');
});

describe('groups', () => {
  it('have the colours of their ranks, whatever is asked for first', () => {
    rankGroups('owner', ['weights', 'gradients']);
    expect(colourOfGroup('owner', 'gradients')).toBe(SERIES[1]);
    expect(colourOfGroup('owner', 'weights')).toBe(SERIES[0]);
    rankGroups('owner', ['states', 'weights']); // of another pool
    expect(colourOfGroup('owner', 'states')).toBe(SERIES[2]);
    expect(colourOfGroup('owner', 'weights')).toBe(SERIES[0]);
    expect(colourOfGroup('owner', 'all others', true)).toBe(REST_COLOUR);
  });

  it('without a rank have the colour of their name', () => {
    const before = colourOfGroup('site', 'a.py(3): run');
    colourOfGroup('site', 'b.py(3): run');
    expect(colourOfGroup('site', 'a.py(3): run')).toBe(before);
  });
});

it('keeps the colour of a function, whatever its line', () => {
  expect(colourOfName('a.py(3): run')).toBe(colourOfName('a.py(99): run'));
});
