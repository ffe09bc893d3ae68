/** Puts things into the clipboard and into files. */
import { notify } from '../state/hover';
import { say } from '../words/say';

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
  notify(say('copied'));
}

/** The way that also works where the page is no secure context, such as behind a forwarded port. */
function copyBySelection(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has the content once the click is done with.
  window.setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function savePicture(canvas: HTMLCanvasElement, name: string): void {
  canvas.toBlob((blob) => {
    if (blob) saveBlob(blob, `${name}.png`);
  });
}
