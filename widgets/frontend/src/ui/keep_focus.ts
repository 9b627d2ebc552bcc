// The keyboard stays in a widget. A control that has the focus when it is disabled, hidden or built anew would lose it
// to the page, where the next letter is a command of the notebook: B inserts a cell, 0 0 restarts the kernel.

const CONTROLS = ":is(button, input, select, textarea, summary, [tabindex]):not([tabindex='-1'])";

const stays = (node: Element): boolean => node.isConnected && !node.matches(":disabled") && !node.closest("[hidden]");
const labelOf = (node: Element): string => `${node.tagName} ${node.getAttribute("aria-label") ?? node.textContent}`;

/** Hands the focus of a control that goes to the one that took its place, or to its nearest neighbour. */
export function keepFocus(root: HTMLElement): () => void {
  let held: HTMLElement | undefined;
  let around: Element[] = []; // what the control stands in, innermost first
  const taken = (event: FocusEvent): void => {
    held = event.target as HTMLElement;
    around = [];
    for (let outer = held.parentElement; outer && root.contains(outer); outer = outer.parentElement) around.push(outer);
  };
  const left = (event: FocusEvent): void => {
    const gone = held;
    // Removal is told before the observer hears of it: it comes first, and only then is the control forgotten.
    if (!root.contains(event.relatedTarget as Node | null)) setTimeout(() => held === gone && !gone?.matches(":focus") && (held = undefined));
  };
  const heir = (gone: Element): HTMLElement | undefined => {
    for (const outer of around) {
      if (!outer.isConnected || outer.closest("[hidden]")) continue;
      const found = [...outer.querySelectorAll<HTMLElement>(CONTROLS)].filter(stays);
      const twin = gone.isConnected ? undefined : found.find((node) => labelOf(node) === labelOf(gone));
      const before = found.filter((node) => node.compareDocumentPosition(gone) & Node.DOCUMENT_POSITION_FOLLOWING);
      const next = twin ?? (gone.isConnected ? before[before.length - 1] : undefined) ?? found[0];
      if (next) return next;
    }
    return undefined;
  };
  const observer = new MutationObserver(() => {
    if (!held || stays(held)) return;
    const next = heir(held);
    held = undefined;
    next?.focus({ preventScroll: true });
  });
  observer.observe(root, { subtree: true, childList: true, attributeFilter: ["disabled", "hidden"] });
  root.addEventListener("focusin", taken);
  root.addEventListener("focusout", left);
  return () => {
    observer.disconnect();
    root.removeEventListener("focusin", taken);
    root.removeEventListener("focusout", left);
  };
}
