/** An answer that follows its question: asked again when the question changes, with what is outdated aborted. */
import { effect, signal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { beginWork } from '../state/work';
import { addressOf, askFrame, askJson, ProblemError, type Problem, type Question } from './ask';
import type { Frame } from './frame';

/** How long a question must stay the same before it is asked, when another one was asked just before. */
const QUIET_MS = 90;

export class Answer<Value> {
  /** The latest answer; it stays while the next one is under way. */
  readonly value = signal<Value | null>(null);
  readonly problem = signal<Problem | null>(null);
  readonly isWaiting = signal(false);

  private address = '';
  private askedAt = -Infinity;
  private timer = 0;
  private endDelay: (() => void) | null = null;
  private abort: AbortController | null = null;
  private readonly stop: () => void;

  constructor(
    question: () => Question | null,
    private readonly ask: (question: Question, abort: AbortSignal) => Promise<Value>,
  ) {
    this.stop = effect(() => this.follow(question()));
  }

  dispose(): void {
    this.stop();
    this.cancel();
  }

  private follow(question: Question | null): void {
    const address = question ? addressOf(question) : '';
    if (address === this.address) return;
    this.address = address;
    this.cancel();
    if (!question) {
      this.value.value = null;
      this.problem.value = null;
      this.isWaiting.value = false;
      return;
    }
    this.isWaiting.value = true;
    const delay = Math.max(0, this.askedAt + QUIET_MS - performance.now());
    this.askedAt = performance.now() + delay;
    if (delay === 0) {
      void this.send(question);
      return;
    }
    this.endDelay = beginWork();
    this.timer = window.setTimeout(() => {
      const end = this.endDelay;
      void this.send(question);
      end?.();
    }, delay);
  }

  private cancel(): void {
    window.clearTimeout(this.timer);
    this.endDelay?.();
    this.endDelay = null;
    this.abort?.abort();
    this.abort = null;
  }

  private async send(question: Question): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    try {
      const value = await this.ask(question, abort.signal);
      if (abort.signal.aborted) return;
      this.value.value = value;
      this.problem.value = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      // So that the same question can be asked again.
      this.address = '';
      this.value.value = null;
      this.problem.value = error instanceof ProblemError
        ? error.problem
        : { message: String(error), hint: null, isStopped: false };
    }
    this.isWaiting.value = false;
  }
}

export function jsonAnswer<Value>(question: () => Question | null): Answer<Value> {
  return new Answer<Value>(question, (asked, abort) => askJson<Value>(asked, abort));
}

export function frameAnswer<Info>(question: () => Question | null): Answer<Frame<Info>> {
  return new Answer<Frame<Info>>(question, (asked, abort) => askFrame<Info>(asked, abort));
}

/** An answer for as long as a view is shown. */
export function useAnswer<Value>(make: () => Answer<Value>): Answer<Value> {
  const answer = useMemo(make, []);
  useEffect(() => () => answer.dispose(), [answer]);
  return answer;
}

export type Read<Value> = ReadonlySignal<Value>;
