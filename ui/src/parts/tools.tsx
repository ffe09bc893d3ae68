/** What every view can do with what it shows: copy it as Python, save it as data or as a picture. */
import type { JSX } from 'preact';
import { addressOf, type Parameters } from '../protocol/ask';
import { say } from '../words/say';
import { copyText, saveBlob, savePicture } from './save';

interface ToolsProps {
  name: string;
  python?: string | undefined;
  /** Parameters of the question, for a download of its whole answer. */
  download?: { what: string; parameters: Parameters } | null | undefined;
  picture?: () => HTMLCanvasElement | null;
  drawing?: () => string | null;
}

export function Tools({ name, python, download, picture, drawing }: ToolsProps): JSX.Element {
  const savePng = (): void => {
    const canvas = picture?.();
    if (canvas) savePicture(canvas, `msmemscope-${name}`);
  };
  const saveSvg = (): void => {
    const text = drawing?.();
    if (text) saveBlob(new Blob([text], { type: 'image/svg+xml' }), `msmemscope-${name}.svg`);
  };
  return (
    <span class="tools" role="group" aria-label={say('save')}>
      {python && (
        <button type="button" data-tool="python" title={say('copy_python_hint')} onClick={() => void copyText(python)}>
          {say('copy_python')}
        </button>
      )}
      {download && (['parquet', 'csv'] as const).map((format) => (
        <a
          class="button" data-tool={format} key={format} download=""
          href={addressOf({ path: 'download', parameters: { ...download.parameters, what: download.what, format } })}
        >
          {format === 'csv' ? 'CSV' : 'Parquet'}
        </a>
      ))}
      {picture && <button type="button" data-tool="png" onClick={savePng}>PNG</button>}
      {drawing && <button type="button" data-tool="svg" onClick={saveSvg}>SVG</button>}
    </span>
  );
}
