// What a panel asks for again and again while somebody sees it, and not otherwise.

import { isSaved, type Cleanup, type Message, type Model } from "./afm";
import type { Told } from "./contract";

/** Panels that say when they have looked. */
type Looking = Told extends infer K ? (K extends `${infer Panel}.seen` ? Panel : never) : never;

const PATIENCE = 20_000; // ms after which a kernel that has not answered is asked again: it may have been busy, or restarted

/**
 * Sends `{kind: PANEL.look, ...facts()}` while `root` is on the screen, every `interval` ms but never before `{kind: PANEL.seen}` has
 * come back: a busy kernel has one message to answer, however long it takes.
 */
export function lookWhileSeen(
  root: HTMLElement, model: Model, cleanup: Cleanup, panel: Looking, interval: number, facts: () => Record<string, unknown> = () => ({}),
): void {
  if (isSaved(model)) return;
  let seen = false;
  let asked = 0;
  const look = (): void => {
    const now = Date.now();
    if (!seen || root.ownerDocument.hidden || (asked && now - asked < PATIENCE)) return;
    asked = now;
    try {
      model.send({ kind: `${panel}.look`, ...facts() });
    } catch {
      seen = false; // the kernel's side is gone
    }
  };
  cleanup.model(model, "msg:custom", (content: Message) => {
    if (content.kind === `${panel}.seen`) asked = 0;
  });
  const observer = new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1].isIntersecting;
    look();
  });
  observer.observe(root);
  const timer = setInterval(look, interval);
  cleanup.add(() => {
    observer.disconnect();
    clearInterval(timer);
  });
}
