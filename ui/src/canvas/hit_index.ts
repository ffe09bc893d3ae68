/** Finds the rectangle at a point: rectangles are kept in bands of their vertical axis, so that few have to be looked at. */
import type { Box, RectangleSet } from './rectangles';

const BANDS = 256;

export class HitIndex {
  private readonly starts = new Uint32Array(BANDS + 1);
  private readonly members: Uint32Array;
  private readonly low: number;
  private readonly scale: number;

  constructor(private readonly rectangles: RectangleSet) {
    const { count, low, high } = rectangles;
    let least = Infinity;
    let most = -Infinity;
    for (let number = 0; number < count; number += 1) {
      least = Math.min(least, low[number]!);
      most = Math.max(most, high[number]!);
    }
    this.low = least;
    this.scale = most > least ? BANDS / (most - least) : 0;
    for (let number = 0; number < count; number += 1) {
      for (let band = this.band(low[number]!); band <= this.band(high[number]!); band += 1) this.starts[band + 1]! += 1;
    }
    for (let band = 0; band < BANDS; band += 1) this.starts[band + 1]! += this.starts[band]!;
    this.members = new Uint32Array(this.starts[BANDS]!);
    const next = this.starts.slice();
    for (let number = 0; number < count; number += 1) {
      for (let band = this.band(low[number]!); band <= this.band(high[number]!); band += 1) {
        this.members[next[band]!] = number;
        next[band]! += 1;
      }
    }
  }

  /** The number of the uppermost rectangle at a point, or -1. `slack` is how far beside it still counts: small ones are drawn larger than they are. */
  at(horizontal: number, vertical: number, slack: { horizontal: number; vertical: number } = { horizontal: 0, vertical: 0 }): number {
    if (this.members.length === 0) return -1;
    const { begin, end, low, high } = this.rectangles;
    let found = -1;
    const last = this.band(vertical + slack.vertical);
    for (let band = this.band(vertical - slack.vertical); band <= last; band += 1) {
      for (let place = this.starts[band + 1]! - 1; place >= this.starts[band]!; place -= 1) {
        const number = this.members[place]!;
        if (number <= found) break;
        if (
          begin[number]! <= horizontal + slack.horizontal && end[number]! > horizontal - slack.horizontal
          && low[number]! <= vertical + slack.vertical && high[number]! > vertical - slack.vertical
        ) {
          found = number;
          break;
        }
      }
    }
    return found;
  }

  private band(vertical: number): number {
    return Math.min(Math.max(Math.floor((vertical - this.low) * this.scale), 0), BANDS - 1);
  }
}

/** Where a point of the picture lies in the data. */
export function pointIn(box: Box, across: number, down: number, isDownward: boolean): { horizontal: number; vertical: number } {
  const height = box.high - box.low;
  return {
    horizontal: box.from + across * (box.to - box.from),
    vertical: isDownward ? box.low + down * height : box.high - down * height,
  };
}
