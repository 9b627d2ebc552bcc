// A pen that writes a page of PDF: vectors, and text in Helvetica and Symbol, which every reader has. A text with letters that
// neither of them has, such as Cyrillic or Chinese ones, becomes a stencil of what the page's own fonts draw.

import type { Pen, TextStyle } from "./pen";
import { rgb } from "../../../core/colors";
import { coordinate } from "../../../core/files";

/** Of letters 32 to 126, in thousandths of the size (Adobe's metrics of Helvetica). */
const WIDTHS = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
  1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
  333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
const WIDE = 556;
const SYMBOLS: Record<string, number> = { "∂": 0xb6, "→": 0xae, "∞": 0xa5, "≤": 0xa3, "≥": 0xb3, "−": 0x2d };
const GREEK = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρςστυφχψω"; // in Symbol at the places of these:
[..."ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprVstufcyw"].forEach((letter, k) => (SYMBOLS[GREEK[k]] = letter.charCodeAt(0)));
const MARK = 63; // a question mark
const LATIN: Record<string, number> = { "…": 0x85, "–": 0x96, "—": 0x97, "’": 0x92, "“": 0x93, "”": 0x94 };
const ROUND = 0.5523; // of a quarter circle as a curve
const FINE = 6; // dots of a stencil along a unit of the page
const LARGEST = 14_400; // units of a page that readers take

/** A text as dots, in hexadecimal rows of whole bytes. */
export interface Stencil {
  width: number;
  height: number;
  dots: string;
}

export class PdfPen implements Pen {
  private readonly parts: string[] = [];
  private readonly stencils = new Map<string, Stencil>();
  private readonly opacities = new Set<number>([1]);
  private path = "";
  private faint = 1;

  /** `cut` makes stencils; where it cannot, as without a page, letters that are missing become question marks. */
  constructor(private readonly cut: (value: string, size: number, weight: number) => Stencil | undefined = stencilOf) {}

  opacity(value: number): void {
    this.faint = value;
    this.parts.push(this.state(value));
  }

  private state(opacity: number): string {
    const kept = Math.round(100 * opacity) / 100;
    this.opacities.add(kept);
    return `/O${Math.round(100 * kept)} gs`;
  }

  /** What paints with a colour, which may let shine through what is below. */
  private paint(color: string, operators: string): void {
    const [, , , alpha = 1] = (color.match(/[\d.]+/g) ?? []).map(Number);
    if (color.startsWith("#") || alpha >= 1) this.parts.push(operators);
    else this.parts.push(`${this.state(this.faint * alpha)}\n${operators}\n${this.state(this.faint)}`);
  }

  box(x: number, y: number, width: number, height: number, radius: number, paint: { fill?: string; stroke?: string; width?: number; dash?: number[] }): void {
    this.begin();
    const r = Math.min(radius, width / 2, height / 2);
    if (r <= 0) this.path = `${[x, y, width, height].map(coordinate).join(" ")} re\n`;
    else {
      const [right, bottom, k] = [x + width, y + height, r * (1 - ROUND)];
      this.move(x + r, y);
      this.line(right - r, y);
      this.curve(right - k, y, right, y + k, right, y + r);
      this.line(right, bottom - r);
      this.curve(right, bottom - k, right - k, bottom, right - r, bottom);
      this.line(x + r, bottom);
      this.curve(x + k, bottom, x, bottom - k, x, bottom - r);
      this.line(x, y + r);
      this.curve(x, y + k, x + k, y, x + r, y);
    }
    if (paint.fill) this.fill(paint.fill);
    if (paint.stroke) this.stroke(paint.stroke, paint.width ?? 1, paint.dash);
  }

  begin(): void {
    this.path = "";
  }

  move(x: number, y: number): void {
    this.path += `${coordinate(x)} ${coordinate(y)} m\n`;
  }

  line(x: number, y: number): void {
    this.path += `${coordinate(x)} ${coordinate(y)} l\n`;
  }

  curve(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.path += `${[x1, y1, x2, y2, x, y].map(coordinate).join(" ")} c\n`;
  }

  stroke(color: string, width: number, dash: number[] = []): void {
    if (this.path) this.paint(color, `${ink(color)} RG ${coordinate(width)} w [${dash.join(" ")}] 0 d\n${this.path}S`);
  }

  fill(color: string): void {
    if (this.path) this.paint(color, `${ink(color)} rg\n${this.path}f`);
  }

  text(value: string, x: number, y: number, { size, weight = 400, color, align = "left" }: TextStyle): void {
    const share = { left: 0, center: 0.5, right: 1 }[align];
    if ([...value].some((letter) => codeOf(letter) === undefined)) {
      const key = JSON.stringify([value, size, weight]);
      const stencil = this.stencils.get(key) ?? this.cut(value, size, weight);
      if (stencil) {
        this.stencils.set(key, stencil);
        const [w, h] = [stencil.width / FINE, stencil.height / FINE];
        this.parts.push(`q ${ink(color)} rg ${coordinate(w)} 0 0 ${coordinate(-h)} ${coordinate(x - share * w)} ${coordinate(y + h / 2)} cm /T${[...this.stencils.keys()].indexOf(key)} Do Q`);
        return;
      }
    }
    const left = x - share * this.measure(value, size);
    const shown = runs(value).map(([font, text]) => `/${font === "S" ? "S" : weight >= 600 ? "B" : "F"} ${size} Tf <${text}> Tj`);
    // The page is upside down, so that y grows downwards as on a screen; letters are turned back.
    this.parts.push(`BT ${ink(color)} rg 1 0 0 -1 ${coordinate(left)} ${coordinate(y + 0.35 * size)} Tm ${shown.join(" ")} ET`);
  }

  measure(value: string, size: number): number {
    let width = 0;
    for (const letter of value) width += WIDTHS[letter.codePointAt(0)! - 32] ?? (letter < "\u1100" ? WIDE : 1000);
    return (width * size) / 1000;
  }

  /** The file, with a page as large as the drawing. */
  finish(x: number, y: number, width: number, height: number, background: string): string {
    const scale = Math.min(1, LARGEST / Math.max(width, height));
    const [w, h] = [coordinate(width * scale), coordinate(height * scale)];
    const s = scale.toFixed(6);
    const page = [`${ink(background)} rg 0 0 ${w} ${h} re f`, `${s} 0 0 -${s} ${(-x * scale).toFixed(3)} ${((y + height) * scale).toFixed(3)} cm`, ...this.parts].join("\n");
    const states = [...this.opacities].map((value) => `/O${Math.round(100 * value)} << /ca ${value} /CA ${value} >>`).join(" ");
    const stencils = [...this.stencils.values()];
    const font = (name: string, encoding = " /Encoding /WinAnsiEncoding"): string => `<< /Type /Font /Subtype /Type1 /BaseFont /${name}${encoding} >>`;
    const objects = [
      "<< /Type /Catalog /Pages 2 0 R >>",
      "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${w} ${h}] /Contents 4 0 R /Resources << /Font << /F 5 0 R /B 6 0 R /S 7 0 R >> /ExtGState << ${states} >> /XObject << ${stencils.map((_, k) => `/T${k} ${8 + k} 0 R`).join(" ")} >> >> >>`,
      `<< /Length ${page.length} >>\nstream\n${page}\nendstream`,
      font("Helvetica"), font("Helvetica-Bold"), font("Symbol", ""),
      ...stencils.map(({ width: across, height: down, dots }) =>
        `<< /Type /XObject /Subtype /Image /ImageMask true /Width ${across} /Height ${down} /BitsPerComponent 1 /Decode [1 0] /Filter /ASCIIHexDecode /Length ${dots.length + 1} >>\nstream\n${dots}>\nendstream`),
    ];
    let file = "%PDF-1.4\n";
    const places = objects.map((object, k) => {
      const at = file.length;
      file += `${k + 1} 0 obj\n${object}\nendobj\n`;
      return `${String(at).padStart(10, "0")} 00000 n \n`;
    });
    return `${file}xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.join("")}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF\n`;
  }
}

function ink(color: string): string {
  return rgb(color).map((part) => coordinate(part / 255)).join(" ");
}

/** The code of a letter in its font; none where neither font has it. */
function codeOf(letter: string): number | undefined {
  const code = letter.codePointAt(0)!;
  return SYMBOLS[letter] ?? LATIN[letter] ?? ((code >= 32 && code < 127) || (code >= 160 && code < 256) ? code : undefined);
}

/** Text as hexadecimal codes, in runs of one font: the page's, or Symbol. All of the file is ASCII, so that bytes are letters. */
function runs(value: string): [font: "F" | "S", text: string][] {
  const found: [font: "F" | "S", text: string][] = [];
  for (const letter of value) {
    const font = letter in SYMBOLS ? "S" : "F";
    const hex = (codeOf(letter) ?? MARK).toString(16).padStart(2, "0");
    const last = found[found.length - 1];
    if (last?.[0] === font) last[1] += hex;
    else found.push([font, hex]);
  }
  return found;
}

/** What the fonts of the page draw, centred in height. */
function stencilOf(value: string, size: number, weight: number): Stencil | undefined {
  const context = typeof document === "undefined" ? undefined : document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!context) return undefined;
  const font = `${weight} ${size * FINE}px sans-serif`;
  context.font = font;
  const width = Math.max(8, Math.ceil(context.measureText(value).width / 8) * 8);
  const height = Math.ceil(size * FINE * 1.5);
  Object.assign(context.canvas, { width, height });
  Object.assign(context, { font, textBaseline: "middle" });
  context.fillText(value, 0, height / 2);
  const { data } = context.getImageData(0, 0, width, height);
  let dots = "";
  for (let at = 0; at < width * height; at += 4) {
    const nibble = [0, 1, 2, 3].reduce((sum, k) => 2 * sum + Number(data[4 * (at + k) + 3] > 127), 0);
    dots += nibble.toString(16);
  }
  return { width, height, dots };
}
