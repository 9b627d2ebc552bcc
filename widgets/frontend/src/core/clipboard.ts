// Text for the clipboard, also where the page may not write to it.

import { element } from "./dom";

/** Copies `text`; where that is refused, shows it selected after `host`, ready for Ctrl+C. True if it was copied. */
export async function copyText(host: HTMLElement, text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", { class: "gw-input gw-code gw-copied", "aria-label": "Text to copy", readonly: true, rows: 3 });
    field.value = text;
    field.addEventListener("blur", () => field.remove());
    host.after(field);
    field.focus();
    field.select();
    return false;
  }
}
