/** What keys and pointer do; opened with a question mark. */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { isHelpOpen } from '../state/hover';
import { say, type WordKey } from '../words/say';

const KEYS: readonly (readonly [string, WordKey])[] = [
  ['← →', 'help_pan'], ['+ −', 'help_zoom'], ['Home', 'help_all'], [', .', 'help_events'], ['p', 'help_peak'], ['a b', 'help_pins'],
  ['1 … 0', 'help_views'], ['/', 'help_search'], ['↑ ↓ PageUp PageDown End', 'help_height'], ['Enter', 'help_enter'], ['Esc', 'help_escape'], ['?', 'help_help'],
];
const POINTER: readonly (readonly [WordKey, WordKey])[] = [
  ['help_click', 'help_click_does'], ['help_drag', 'help_drag_does'], ['help_shift_drag', 'help_shift_drag_does'],
  ['help_wheel', 'help_wheel_does'], ['help_shift_wheel', 'help_shift_wheel_does'], ['help_alt_wheel', 'help_alt_wheel_does'],
  ['help_double', 'help_double_does'],
];

export function Help(): JSX.Element | null {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen && !dialog.current?.open) dialog.current?.showModal();
    if (!isOpen) dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} class="help" data-help aria-label={say('help')} onClose={() => { isHelpOpen.value = false; }}>
      <div class="panel-head">
        <h2>{say('help')}</h2>
        <span class="spring" />
        <button type="button" data-action="close" aria-label={say('close')} onClick={() => { isHelpOpen.value = false; }}>×</button>
      </div>
      <div class="help-columns">
        <section>
          <h3>{say('keys')}</h3>
          <dl>{KEYS.map(([keys, text]) => [<dt key={keys}><kbd>{keys}</kbd></dt>, <dd key={text}>{say(text)}</dd>])}</dl>
        </section>
        <section>
          <h3>{say('pointer')}</h3>
          <dl>{POINTER.map(([what, text]) => [<dt key={what}>{say(what)}</dt>, <dd key={text}>{say(text)}</dd>])}</dl>
          <p class="quiet">{say('help_share')}</p>
        </section>
      </div>
    </dialog>
  );
}
