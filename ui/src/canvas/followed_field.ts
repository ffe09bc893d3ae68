/** A field that follows what it shows, for as long as its view is there. */
import { effect } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { tip } from '../state/hover';
import type { Field } from './field';

export interface FollowedField {
  field: Field;
  dispose: () => void;
}

/** Loads a field again when what `load` reads changes, and draws it again when what `read` reads does. */
export function followed(field: Field, load: () => void, read: () => void): FollowedField {
  const stops = [
    effect(load),
    effect(() => {
      read();
      field.request();
    }),
  ];
  return {
    field,
    dispose: () => {
      for (const stop of stops) stop();
      field.dispose();
      tip.value = null;
    },
  };
}

/** Makes a field within an element of a view; anew when one of the inputs changes. */
export function useField(
  make: (host: HTMLElement) => FollowedField, inputs: readonly unknown[] = [],
): { host: RefObject<HTMLDivElement | null>; field: RefObject<Field | null> } {
  const host = useRef<HTMLDivElement>(null);
  const field = useRef<Field | null>(null);
  useEffect(() => {
    if (!host.current) return undefined;
    const made = make(host.current);
    field.current = made.field;
    return made.dispose;
  }, inputs);
  return { host, field };
}
