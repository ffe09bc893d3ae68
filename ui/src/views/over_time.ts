/** What pictures over time share: lines of the moment and the pointer, panning and zooming of the common window. */
import type { FieldPlace } from '../canvas/field';
import { drawMoments } from '../memory/annotations';
import { pinsOf } from '../memory/pins';
import { pointed } from '../state/hover';
import type { Lens } from '../state/lens';
import { theme } from '../state/preferences';
import { store } from '../state/store';

export function drawLines(context: CanvasRenderingContext2D, place: FieldPlace, lens: Lens): void {
  drawMoments({
    moment: lens.moment.value.value?.position ?? null,
    range: store.range.value,
    pins: pinsOf(lens),
    pointed: pointed.value?.lens === lens ? pointed.value.position : null,
  }, { context, theme: theme.value, left: 0, top: 0, width: place.width, height: place.height, x: place.x });
}

/** Everything that those lines depend on; read within an effect. */
export function readLines(lens: Lens): void {
  void [lens.moment.value.value, store.range.value, pinsOf(lens), pointed.value, theme.value];
}
