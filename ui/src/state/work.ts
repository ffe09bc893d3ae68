/** Counts what is under way (requests, delays, drawing), so that a test can wait until the page is at rest. */

let pending = 0;
let waiting: (() => void)[] = [];

export function beginWork(): () => void {
  pending += 1;
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    pending -= 1;
    if (pending === 0) afterTwoFrames(settle);
  };
}

/** One frame may start new work (a view that asks for what it shows), which the second one sees. */
function afterTwoFrames(then: () => void): void {
  requestAnimationFrame(() => requestAnimationFrame(then));
}

function settle(): void {
  if (pending > 0) return;
  const ready = waiting;
  waiting = [];
  for (const resolve of ready) resolve();
}

export function idle(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    afterTwoFrames(settle);
  });
}

/** Draws once in the next frame, however often it is asked to before. */
export class Redraw {
  private end: (() => void) | null = null;
  private frame = 0;

  constructor(private readonly draw: () => void) {}

  request(): void {
    if (this.end) return;
    this.end = beginWork();
    this.frame = requestAnimationFrame(() => {
      const end = this.end;
      this.end = null;
      try {
        this.draw();
      } finally {
        end?.();
      }
    });
  }

  cancel(): void {
    cancelAnimationFrame(this.frame);
    this.end?.();
    this.end = null;
  }
}
