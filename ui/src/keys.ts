/** Keys that work everywhere on the page. */
import { pinned, stepEvent } from './memory/moment_bar';
import { windowKey } from './memory/memory_view';
import { VIEWS } from './state/fields';
import { isHelpOpen } from './state/hover';
import { mainLens } from './state/lens';
import { change, store } from './state/store';

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest('input, select, textarea, dialog, [role="grid"], .scrolled')) return;
  const digit = '1234567890'.indexOf(event.key);
  if (event.key === '?') isHelpOpen.value = true;
  else if (event.key === '/') document.querySelector<HTMLInputElement>('[data-control="search"]')?.focus();
  else if (event.key === ',') stepEvent(-1);
  else if (event.key === '.') stepEvent(1);
  else if (event.key === 'p') change({ row: null });
  else if (event.key === 'a') change({ pinA: pinned() });
  else if (event.key === 'b') change({ pinB: pinned() });
  else if (event.key === 'Escape') escape();
  else if (digit >= 0 && VIEWS[digit]) store.view.value = VIEWS[digit];
  else if (!windowKey(mainLens, event)) return;
  event.preventDefault();
}

/** Closes what is open, the latest thing first. */
function escape(): void {
  if (store.site.value) change({ site: '' });
  else if (store.block.value !== null) change({ block: null });
  else change({ range: null });
}

export function connectKeys(): void {
  document.addEventListener('keydown', onKey);
}
