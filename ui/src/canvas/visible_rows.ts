/** The rows that a scrolled field shows. The field itself stays as high as what it lies in: browsers refuse canvases of many
    thousands of lines. */
export function visibleRows(host: HTMLElement, rowHeight: number, isUpward = false): { low: number; high: number } {
  const scroller = host.closest('.scrolled');
  const sheet = host.closest('.sheet');
  const height = host.clientHeight;
  const hidden = Math.max((sheet?.clientHeight ?? height) - height, 0);
  const top = Math.min(scroller?.scrollTop ?? 0, hidden);
  const low = (isUpward ? hidden - top : top) / rowHeight;
  return { low, high: low + height / rowHeight };
}
