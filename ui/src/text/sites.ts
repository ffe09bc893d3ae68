/** A frame as there is room for it: the function first, then its file without folders. */
export function shortFrame(text: string): string {
  const match = /^(?:.*\/)?([^/(]+)\((\d+)\)(?:: (.*))?$/.exec(text);
  if (!match) return text;
  return match[3] ? `${match[3]} · ${match[1]}:${match[2]}` : `${match[1]}:${match[2]}`;
}

/** A call site with the last two of its folders. */
export function shortSite(text: string): string {
  const match = /^\/(?:[^/(]+\/)*?((?:[^/(]+\/){0,2}[^/(]+\(\d+\).*)$/.exec(text);
  return match && match[1] !== undefined && match[1].length < text.length - 1 ? `…/${match[1]}` : text;
}

/** Whether a text names a line of a file, so that its source can be asked for. */
export function isSite(text: string): boolean {
  return /^[^(]+\(\d+\)/.test(text);
}
