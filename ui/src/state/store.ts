/** The one state that all views share, and its way into the address and back. */
import { batch, effect, signal, type Signal } from '@preact/signals';
import { readState, writeState, type State } from './fields';

export type Store = { readonly [Key in keyof State]: Signal<State[Key]> };

const initial = readState(typeof location === 'undefined' ? '' : location.hash);

export const store = Object.fromEntries(
  Object.entries(initial).map(([key, value]) => [key, signal(value)]),
) as unknown as Store;

/** Sets several fields; views see them change at once. */
export function change(values: Partial<State>): void {
  batch(() => {
    for (const [key, value] of Object.entries(values)) (store[key as keyof State] as Signal<unknown>).value = value;
  });
}

function currentState(): State {
  return Object.fromEntries(Object.entries(store).map(([key, one]) => [key, one.value])) as State;
}

/** While somebody drags or turns the wheel, only where it ends becomes a step that the back button returns to. */
const SETTLED_MS = 300;

export function connectAddress(): void {
  let timer = 0;
  let written = writeState(currentState());
  effect(() => {
    const text = writeState(currentState());
    window.clearTimeout(timer);
    if (text === written) return;
    timer = window.setTimeout(() => {
      written = text;
      history.pushState(null, '', text ? `#${text}` : location.pathname + location.search);
    }, SETTLED_MS);
  });
  const readAddress = (): void => {
    window.clearTimeout(timer);
    const state = readState(location.hash);
    written = writeState(state);
    change(state);
  };
  window.addEventListener('popstate', readAddress);
}

/** The address of what is shown now, also before it has settled. */
export function currentAddress(): string {
  return `${location.href.split('#')[0]}#${writeState(currentState())}`;
}
