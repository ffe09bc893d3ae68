/** The strip of the whole run, with the window in it: drag its edges or its middle, or draw a new one. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { effect } from '@preact/signals';
import { resize } from '../canvas/webgl_painter';
import { frameAnswer, useAnswer } from '../protocol/answer';
import { largest } from '../protocol/frame';
import type { MemoryInfo } from '../protocol/types';
import { showAll, showWindow, type Lens } from '../state/lens';
import { theme } from '../state/preferences';
import { Redraw } from '../state/work';
import { say } from '../words/say';

const COLUMNS = 1000;
const EDGE_PIXELS = 6;

type Grip = 'from' | 'to' | 'middle' | 'new';

export function Overview({ lens }: { lens: Lens }): JSX.Element {
  const answer = useAnswer(() => frameAnswer<MemoryInfo>(() => {
    const common = lens.common();
    return common && { path: 'memory', parameters: { ...common, columns: COLUMNS, by: 'none', groups: 0 } };
  }));
  const canvas = useRef<HTMLCanvasElement>(null);
  const redraw = useMemo(() => new Redraw(() => { if (canvas.current) draw(canvas.current); }), []);

  const draw = (target: HTMLCanvasElement): void => {
    const ratio = window.devicePixelRatio || 1;
    const width = target.clientWidth;
    const height = target.clientHeight;
    resize(target, width * ratio, height * ratio);
    const context = target.getContext('2d');
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const most = answer.value.value?.table.numbers('most');
    if (most) {
      const highest = largest(most, 1);
      context.fillStyle = theme.value.quiet;
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(0, height);
      most.forEach((value, column) => {
        const level = height - (value / highest) * (height - 2);
        context.lineTo((column / most.length) * width, level);
        context.lineTo(((column + 1) / most.length) * width, level);
      });
      context.lineTo(width, height);
      context.fill();
      context.globalAlpha = 1;
    }
    const { from, to } = lens.window.value;
    const left = (from / lens.length.value) * width;
    const right = Math.max((to / lens.length.value) * width, left + 2);
    context.fillStyle = theme.value.ground;
    context.globalAlpha = 0.65;
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.value.link;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 1), height - 1.5);
  };

  useEffect(() => {
    const stop = effect(() => {
      // What the picture depends on.
      void [answer.value.value, lens.window.value, lens.length.value, theme.value];
      redraw.request();
    });
    const observer = new ResizeObserver(() => redraw.request());
    if (canvas.current) observer.observe(canvas.current);
    return () => {
      stop();
      observer.disconnect();
      redraw.cancel();
    };
  }, []);

  const grip = useRef<{ kind: Grip; start: number; from: number; to: number } | null>(null);
  const placeOf = (event: PointerEvent): number => {
    const bounds = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return ((event.clientX - bounds.left) / bounds.width) * lens.length.value;
  };
  const onDown = (event: PointerEvent): void => {
    const target = event.currentTarget as HTMLElement;
    target.setPointerCapture(event.pointerId);
    const start = placeOf(event);
    const { from, to } = lens.window.value;
    const slack = (EDGE_PIXELS / target.clientWidth) * lens.length.value;
    let kind: Grip = 'new';
    if (Math.abs(start - from) < slack && from > 0) kind = 'from';
    else if (Math.abs(start - to) < slack && to < lens.length.value) kind = 'to';
    else if (!lens.isWhole && start > from && start < to) kind = 'middle';
    grip.current = { kind, start, from, to };
  };
  const onMove = (event: PointerEvent): void => {
    const held = grip.current;
    if (!held || !event.buttons) return;
    const place = placeOf(event);
    if (held.kind === 'middle') showWindow(lens, { from: held.from + place - held.start, to: held.to + place - held.start });
    else {
      const fixed = held.kind === 'from' ? held.to : held.kind === 'to' ? held.from : held.start;
      if (Math.abs(place - fixed) > lens.length.value / 2000) showWindow(lens, { from: Math.min(place, fixed), to: Math.max(place, fixed) });
    }
  };

  return (
    <canvas
      class="overview" ref={canvas} data-overview role="img" aria-label={say('overview_hint')} title={say('overview_hint')}
      onPointerDown={onDown} onPointerMove={onMove} onPointerUp={() => { grip.current = null; }} onDblClick={() => showAll(lens)}
    />
  );
}
