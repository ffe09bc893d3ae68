/** Colours. Those of series are six of Okabe's and Ito's with a dark violet: a test computes that they stay apart for
    colour-blind eyes. Both themes use the same. */

export type ThemeName = 'light' | 'dark';

export interface Theme {
  ground: string;
  raised: string;
  ink: string;
  quiet: string;
  line: string;
  link: string;
  alarm: string;
  alarmGround: string;
  warning: string;
  warningGround: string;
  fine: string;
  fineGround: string;
  hit: string;
  shade: string;
}

export const THEMES: Record<ThemeName, Theme> = {
  light: {
    ground: '#ffffff', raised: '#f5f6f8', ink: '#1a1d21', quiet: '#5a626c', line: '#d5d9df', link: '#0b5cad',
    alarm: '#b3261e', alarmGround: '#fdecea', warning: '#7a4b00', warningGround: '#fff4dd',
    fine: '#0a6b4b', fineGround: '#e6f5ef', hit: '#fff1b8', shade: '#00000014',
  },
  dark: {
    ground: '#14171a', raised: '#1e2226', ink: '#e8eaed', quiet: '#a4adb7', line: '#3a4149', link: '#7fb8f5',
    alarm: '#ffb4a8', alarmGround: '#3b1d1a', warning: '#f5cf85', warningGround: '#37290c',
    fine: '#7fdcb9', fineGround: '#12302a', hit: '#4d4208', shade: '#ffffff1c',
  },
};

/** The colours of a theme as variables of style sheets: `--alarm-ground`. */
export function themeVariables(theme: Theme): [string, string][] {
  return Object.entries(theme).map(([name, colour]) => [`--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`, colour as string]);
}

const BASE = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d9c72e', '#5e3c99'];

/** What is not one group but the rest of them. */
export const REST_COLOUR = '#9aa3ad';
export const FAILED_COLOUR = '#d55e00';
/** Seen on the ground of both themes. */
export const MARK_COLOUR = '#8f6bb1';

export type Rgb = readonly [number, number, number];

export function rgbOf(hex: string): Rgb {
  const number = Number.parseInt(hex.slice(1, 7), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

export function hexOf([red, green, blue]: Rgb): string {
  return `#${[red, green, blue].map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;
}

function mixed(colour: Rgb, other: Rgb, share: number): Rgb {
  return [0, 1, 2].map((part) => colour[part]! + (other[part]! - colour[part]!) * share) as unknown as Rgb;
}

export function lighter(hex: string, share: number): string {
  return hexOf(mixed(rgbOf(hex), [255, 255, 255], Math.min(share, 0.7)));
}

/** For names that are many and mean nothing by their colour: soft, so that words upon them are read easily. */
export const SOFT: readonly string[] = BASE.map((hex) => lighter(hex, 0.5));

/** More than seven groups get the same hues, darker and then lighter. */
export const SERIES: readonly string[] = [
  ...BASE,
  ...BASE.map((hex) => hexOf(mixed(rgbOf(hex), [0, 0, 0], 0.35))),
  ...BASE.map((hex) => hexOf(mixed(rgbOf(hex), [255, 255, 255], 0.45))),
];

/** Relative luminance and contrast as WCAG defines them. */
export function luminance(colour: Rgb): number {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(one: string, other: string): number {
  const [high, low] = [luminance(rgbOf(one)), luminance(rgbOf(other))].sort((first, second) => second - first) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const DARK_LABEL = '#11151a';
const LIGHT_LABEL = '#ffffff';

/** The colour of a text upon a colour: the one that is read more easily. */
export function labelOn(colour: string): string {
  return contrast(colour, DARK_LABEL) >= contrast(colour, LIGHT_LABEL) ? DARK_LABEL : LIGHT_LABEL;
}

/** Viridis, at nine places: even steps of lightness that all eyes can order. */
const VIRIDIS = ['#440154', '#472d7b', '#3b528b', '#2c728e', '#21918c', '#28ae80', '#5ec962', '#addc30', '#fde725'].map(rgbOf);

/** The colour of a share from 0 to 1. */
export function sequential(share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return mixed(VIRIDIS[below]!, VIRIDIS[below + 1]!, place - below);
}
