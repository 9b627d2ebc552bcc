// The keyboard stays in a widget. A control that has the focus when it is disabled, hidden or built anew would lose it
// to the page, where the next letter is a command of the notebook: B inserts a cell, 0 0 restarts the kernel. Chords are
// the page's wherever the focus is: Ctrl+S saves the notebook.

const OURS = "acvxyz" + "fg"; // with Ctrl these edit the text that has the focus, and find things in the widget
const SHIFTED = "zg"; // of these also with Shift

const usable = (node: Element): boolean => node.isConnected && !node.matches(":disabled") && !node.closest("[hidden]");
const labelOf = (node: Element): string => `${node.tagName} ${node.getAttribute("aria-label") ?? node.textContent}`;

/**
 * Hands the focus of a control that goes to the one that took its place, or else to what it stood in, where letters are
 * still heard and Enter presses nothing by mistake. A control that comes back gets it back: Step is off while it steps.
 */
export function keepFocus(root: HTMLElement): () => void {
  let held: HTMLElement | undefined;
  let around: HTMLElement[] = []; // what the control stands in, innermost first
  let keeper: HTMLElement | undefined; // holds the focus instead of the control
  const taken = (event: FocusEvent): void => {
    if (event.target === keeper) return;
    held = event.target as HTMLElement;
    keeper = undefined;
    around = [];
    for (let outer = held.parentElement; outer && root.contains(outer); outer = outer.parentElement) around.push(outer);
  };
  const left = (event: FocusEvent): void => {
    if (root.contains(event.relatedTarget as Node | null)) return;
    // A removed control is told to have left before the observer hears of it, which comes before any timeout.
    setTimeout(() => {
      if (!root.querySelector(":focus")) held = keeper = undefined;
    });
  };
  const observer = new MutationObserver(() => {
    if (!held || usable(held) === !keeper) return;
    if (keeper) held.focus({ preventScroll: true });
    else {
      const place = around.find(usable) ?? root;
      const gone = held;
      const twin = gone.isConnected ? undefined : [...place.querySelectorAll<HTMLElement>(gone.tagName)].find((node) => usable(node) && labelOf(node) === labelOf(gone));
      if (!twin) {
        keeper = place;
        if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
      }
      (twin ?? place).focus({ preventScroll: true });
    }
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

/** Whether a key that is pressed in a widget is for the page around it. AltGr, which types characters, is Ctrl and Alt. */
function isPages({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): boolean {
  return (ctrlKey || metaKey) && !altKey && key.length === 1 && !(shiftKey ? SHIFTED : OURS).includes(key.toLowerCase());
}

/** Keeps keys from JupyterLab that are not for it: before it hears of one, what has the focus is marked, or not. */
export function keepKeys(root: HTMLElement): () => void {
  const pressed = (event: KeyboardEvent): void => {
    const at = event.target;
    // On what stands around it would be too late: rules of the notebook name the focus itself.
    if (at instanceof Element && root.contains(at)) at.toggleAttribute("data-lm-suppress-shortcuts", !isPages(event));
  };
  window.addEventListener("keydown", pressed, true); // JupyterLab listens to the document, which comes next
  return () => window.removeEventListener("keydown", pressed, true);
}
