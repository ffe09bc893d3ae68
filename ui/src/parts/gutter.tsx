/** The labels of a vertical axis in bytes, left of a picture. */
import type { JSX } from 'preact';
import { formatBytes } from '../text/numbers';
import { binaryTicks } from '../text/ticks';

const LABEL_HEIGHT = 36;

export function ByteGutter({ low, high, height }: { low: number; high: number; height: number }): JSX.Element {
  const span = high - low || 1;
  return (
    <div class="gutter" aria-hidden="true">
      {binaryTicks(low, high, Math.max(height / LABEL_HEIGHT, 2)).map((bytes) => (
        <span key={bytes} style={{ bottom: `${(100 * (bytes - low)) / span}%` }}>{formatBytes(bytes)}</span>
      ))}
    </div>
  );
}
