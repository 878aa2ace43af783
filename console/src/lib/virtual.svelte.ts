// A list of which only the visible part is in the page: the maintained core of TanStack Virtual, bound to runes.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect, type VirtualItem } from '@tanstack/virtual-core';

export interface ListOptions {
  count: () => number;
  key: (index: number) => string;
  estimate: (index: number) => number;
  overscan?: number;
  /** Pixels before the first item. */
  before?: () => number;
}

export class VirtualList {
  items = $state.raw<VirtualItem[]>([]);
  total = $state(0);
  /** True while the end is in sight. */
  atEnd = $state(true);
  core: Virtualizer<HTMLElement, HTMLElement>;
  #options: ListOptions;
  /** Another function whenever the keys are others: places are kept by it, also where the count stays. */
  #key: (index: number) => string;
  #element: HTMLElement | null = null;
  #cleanup: (() => void) | undefined;

  constructor(options: ListOptions) {
    this.#options = options;
    this.#key = options.key;
    this.core = new Virtualizer<HTMLElement, HTMLElement>(this.#settings());
  }

  #settings() {
    const options = this.#options;
    return {
      count: options.count(),
      getScrollElement: () => this.#element,
      estimateSize: options.estimate,
      getItemKey: this.#key,
      overscan: options.overscan ?? 6,
      paddingStart: options.before?.() ?? 0,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      onChange: () => this.#read(),
    };
  }

  #read(): void {
    this.items = this.core.getVirtualItems();
    this.total = this.core.getTotalSize();
    const element = this.#element;
    if (element) this.atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 48;
  }

  /** An action for the element that scrolls. */
  scroller = (element: HTMLElement) => {
    this.#element = element;
    this.#cleanup = this.core._didMount();
    this.core._willUpdate();
    this.#read();
    const onScroll = () => {
      this.atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 48;
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    return {
      destroy: () => {
        element.removeEventListener('scroll', onScroll);
        this.#cleanup?.();
      },
    };
  };

  /** An action for each item, which has its index in `data-index`. */
  measure = (element: HTMLElement) => {
    this.core.measureElement(element);
    return {
      // The item's place may be another one now.
      update: () => this.core.measureElement(element),
    };
  };

  /** The indexes of the first and the last item in sight; none without items. */
  inSight(): [number, number] | null {
    const element = this.#element;
    if (!element) return null;
    const seen = this.core.getVirtualItems().filter((item) => item.end > element.scrollTop + 8 && item.start < element.scrollTop + element.clientHeight - 8);
    return seen.length ? [seen[0]!.index, seen.at(-1)!.index] : null;
  }

  /** Reads the items again, which may be others. What is in sight stays where it is, the preferred one first of all. */
  update(changed = true, preferred = ''): void {
    if (changed) this.#key = (index) => this.#options.key(index);
    const element = this.#element;
    const offset = element?.scrollTop ?? 0;
    const seen = this.core.getVirtualItems().filter((item) => item.end > offset && item.start < offset + (element?.clientHeight ?? 0));
    const held = seen.find((item) => item.key === preferred) ?? seen[0];
    this.core.setOptions(this.#settings());
    this.core._willUpdate();
    this.#read();
    if (!element || !held) return;
    const count = this.#options.count();
    const isHere = (index: number) => index < count && this.#options.key(index) === held.key;
    let index = held.index;
    if (!isHere(index)) for (index = 0; index < count && !isHere(index); ) index += 1;
    if (index === count) return;
    const start = this.core.measurementsCache[index]?.start ?? held.start;
    if (Math.abs(start - held.start) > 1) this.core.scrollToOffset(start + offset - held.start);
  }

  toIndex(index: number, align: 'start' | 'center' | 'end' | 'auto' = 'start'): void {
    this.core.scrollToIndex(index, { align });
  }

  toEnd(): void {
    const count = this.#options.count();
    if (count) this.core.scrollToIndex(count - 1, { align: 'end' });
  }
}
