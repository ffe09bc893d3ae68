/** Where the pinned moments lie on the axis of a capture. */
import { computed } from '@preact/signals';
import { jsonAnswer, type Answer } from '../protocol/answer';
import type { Moment } from '../protocol/types';
import type { Pin } from '../state/fields';
import { session, type Lens } from '../state/lens';
import { store } from '../state/store';

function placeOf(pin: () => Pin | null): Answer<Moment> {
  return jsonAnswer<Moment>(() => {
    const chosen = pin();
    const process = session.value?.processes.find((one) => one.process === chosen?.process);
    if (!chosen || !process) return null;
    const axis = process.axis.has_times ? store.axis.value : 'events';
    return { path: 'at', parameters: { process: chosen.process, pool: chosen.pool, row: chosen.row, axis } };
  });
}

export const pinPlaces = { A: placeOf(() => store.pinA.value), B: placeOf(() => store.pinB.value) };

const PINS = [{ name: 'A', pin: store.pinA }, { name: 'B', pin: store.pinB }] as const;

/** The pins of the pool that a lens shows. */
export function pinsOf(lens: Lens): { name: string; position: number }[] {
  return PINS.flatMap(({ name, pin }) => {
    const place = pinPlaces[name].value.value;
    const isHere = pin.value?.process === lens.process.value?.process && pin.value?.pool === lens.pool.value?.pool;
    return place && isHere ? [{ name, position: place.position }] : [];
  });
}

export const hasBothPins = computed(() => store.pinA.value !== null && store.pinB.value !== null);
