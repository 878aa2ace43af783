// A list of which only the visible part is in the page: the maintained core of TanStack Virtual, bound to runes.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect, type VirtualItem } from '@tanstack/virtual-core';

export interface ListOptions {
  count: () => number;
  key: (index: number) => string;
  estimate: (index: number) => number;
  overscan?: number;
  /** Pixels before the first item. */
  before?: () => number;
  /** What comes above the first item is seen by whoever is there, instead of staying out of sight above it. */
  growsAbove?: boolean;
}

interface Place {
  key: string;
  index: number;
  /** Pixels from the top of what is seen. */
  distance: number;
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
  #sheet: HTMLElement | null = null;
  #cleanup: (() => void) | undefined;
  /** The item of the last change that stays in sight. */
  #anchor: number | undefined;
  /** The items of a change that was scrolled for, until the page says that it has scrolled. */
  #held: Place[] | undefined;

  constructor(options: ListOptions) {
    this.#options = options;
    this.#key = options.key;
    this.core = new Virtualizer<HTMLElement, HTMLElement>(this.#settings());
    // Items above what stays in sight may be in sight, too, and have other heights once a change is drawn.
    this.core.shouldAdjustScrollPositionOnItemSizeChange = (item, _delta, core) => {
      const offset = core.scrollOffset ?? 0;
      const anchor = this.#anchor === undefined ? undefined : core.measurementsCache[this.#anchor];
      const isSeen = anchor && anchor.end > offset && anchor.start < offset + (this.#element?.clientHeight ?? 0);
      return item.start < offset || (!!isSeen && item.index < anchor.index);
    };
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
      this.#held = undefined;
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

  /** An action for the element in it that is as high as all items. */
  sheet = (element: HTMLElement) => {
    this.#sheet = element;
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

  /** Where the items in sight are, the preferred one first: distances from the top of what is seen. */
  #places(preferred: string): Place[] {
    const element = this.#element;
    if (!element) return [];
    // What the library has in sight is what it was before.
    if (this.#held) return this.#held;
    const offset = element.scrollTop;
    if (this.#options.growsAbove && offset <= 0) return [];
    const seen = this.core.getVirtualItems().filter((item) => item.end > offset && item.start < offset + element.clientHeight);
    const places = seen.map((item) => ({ key: String(item.key), index: item.index, distance: item.start - offset }));
    return [...places.filter((place) => place.key === preferred), ...places];
  }

  /** The places now of the items that are still there: of the preferred one first, and then of those that have moved least, since
   *  one may have left the others by itself. */
  #kept(places: Place[], preferred: string): Place[] {
    const count = this.#options.count();
    if (places.every(({ key, index }) => index < count && this.#options.key(index) === key)) return places;
    const indexes = new Map(places.map(({ key }) => [key, -1]));
    for (let index = 0; index < count; index += 1) if (indexes.has(this.#options.key(index))) indexes.set(this.#options.key(index), index);
    const moved = ({ key, index }: Place) => (key === preferred ? -1 : Math.abs(indexes.get(key)! - index));
    const there = places.filter(({ key }) => indexes.get(key) !== -1).sort((left, right) => moved(left) - moved(right));
    return there.map((place) => ({ ...place, index: indexes.get(place.key)! }));
  }

  /** Reads the items again, which may be others. What is in sight stays where it is, the preferred one first of all. */
  update(changed = true, preferred = ''): void {
    if (changed) this.#key = (index) => this.#options.key(index);
    const places = this.#places(preferred);
    this.core.setOptions(this.#settings());
    this.core._willUpdate();
    this.#read();
    const all = this.#kept(places, preferred);
    const [kept] = all;
    this.#anchor = kept?.index;
    const start = kept && this.core.measurementsCache[kept.index]?.start;
    const offset = this.#element?.scrollTop ?? 0;
    if (!kept || start === undefined || Math.abs(start - kept.distance - offset) <= 1) return;
    // A place beyond the height of before cannot be scrolled to.
    if (this.#sheet) this.#sheet.style.height = `${this.total}px`;
    this.core.scrollToOffset(start - kept.distance);
    this.#held = all;
  }

  toIndex(index: number, align: 'start' | 'center' | 'end' | 'auto' = 'start'): void {
    this.#held = this.#anchor = undefined;
    this.core.scrollToIndex(index, { align });
  }

  toEnd(): void {
    this.#held = undefined;
    const count = this.#options.count();
    if (count) this.core.scrollToIndex(count - 1, { align: 'end' });
  }
}
