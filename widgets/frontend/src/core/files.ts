// Files that a reader takes along: pictures, points, graphs. Nothing leaves the machine.

export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escapeXml(text: string): string {
  // Control characters other than tab and line ends have no place in XML 1.0 at all.
  return text.replace(/[&<>"']/g, (c) => ESCAPES[c]).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
}

/** A coordinate of an SVG picture: hundredths of a pixel are enough. */
export function coordinate(value: number): string {
  return String(Math.round(value * 100) / 100);
}
