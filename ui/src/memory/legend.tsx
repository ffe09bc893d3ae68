/** The groups with their bytes at the pointer, or at the chosen moment. */
import type { JSX } from 'preact';
import { colourOfGroup } from '../colour/series';
import { formatBytes } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say } from '../words/say';
import type { MemoryColumns } from './columns';

export function nameOfGroup(name: string, isRest: boolean): string {
  if (isRest) return say('rest');
  return name === '' ? say('in_use') : name;
}

export function Legend({ columns, column }: { columns: MemoryColumns; column: number }): JSX.Element {
  const reserved = columns.reserved?.[column];
  return (
    <ul class="legend" data-legend>
      <li class="total">
        <span class="name">{say('in_use')}</span>
        <span class="number">{formatBytes(columns.most[column] ?? 0)}</span>
      </li>
      {reserved !== undefined && !Number.isNaN(reserved) && (
        <li>
          <span class="swatch broken" />
          <span class="name">{say('reserved')}</span>
          <span class="number">{formatBytes(reserved)}</span>
        </li>
      )}
      {columns.groups.map((group, number) => {
        const name = nameOfGroup(group.name, group.is_rest);
        const bytes = columns.bytes[number]?.[column] ?? 0;
        return (
          <li key={`${group.key}${group.name}`} class={bytes === 0 ? 'none' : ''}>
            <span class="swatch" style={{ background: colourOfGroup(columns.by, group.name, group.is_rest) }} />
            <span class="name" title={name}>{shortSite(name)}</span>
            <span class="number">{formatBytes(bytes)}</span>
          </li>
        );
      }).reverse()}
    </ul>
  );
}
