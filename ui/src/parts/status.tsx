/** Mistakes in words, and that an answer is under way. */
import type { JSX } from 'preact';
import type { Answer } from '../protocol/answer';
import { tip } from '../state/hover';
import { say } from '../words/say';

/** What is wrong with an answer, if anything. */
export function Trouble<Value>({ answer }: { answer: Answer<Value> }): JSX.Element | null {
  const problem = answer.problem.value;
  if (!problem) return null;
  return (
    <div class="trouble" role="alert" data-trouble>
      <strong>{problem.isStopped ? say('server_gone') : problem.message}</strong>
      {problem.hint && <span>{say('hint', { text: problem.hint })}</span>}
    </div>
  );
}

export function Waiting<Value>({ answer }: { answer: Answer<Value> }): JSX.Element {
  return <span class={answer.isWaiting.value ? 'waiting on' : 'waiting'} role="status" aria-label={answer.isWaiting.value ? say('waiting') : ''} />;
}

const TIP_WIDTH = 360;

/** Words beside the pointer. */
export function TipBox(): JSX.Element | null {
  const shown = tip.value;
  if (!shown) return null;
  const isLeft = shown.x + TIP_WIDTH + 20 > window.innerWidth;
  const isAbove = shown.y + 160 > window.innerHeight;
  const style = {
    maxWidth: `${TIP_WIDTH}px`,
    [isLeft ? 'right' : 'left']: `${isLeft ? window.innerWidth - shown.x + 12 : shown.x + 14}px`,
    [isAbove ? 'bottom' : 'top']: `${isAbove ? window.innerHeight - shown.y + 10 : shown.y + 14}px`,
  };
  return (
    <div class="tip" data-tip style={style}>
      <strong>{shown.title}</strong>
      {shown.lines.map((line, number) => <div key={number}>{line}</div>)}
    </div>
  );
}
