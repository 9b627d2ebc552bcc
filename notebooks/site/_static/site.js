// What a page of the site does itself: plots and drawings in the colours of the page, a filter.

const dark = () => {
  const set = document.body.dataset.theme;
  return set === "dark" || (set !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
};

function drawPlots() {
  for (const place of document.querySelectorAll(".site-plot")) {
    const { data, layout } = JSON.parse(place.dataset.figure);
    const ink = dark() ? "#c9cdd3" : "#3b424c";
    const clear = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" };
    const font = { ...layout.font, color: ink };
    Plotly.react(place, data, { ...layout, ...clear, font }, { responsive: true, displaylogo: false });
  }
}

// A drawing is a page of its own in a frame: as high as what it shows, in the colours of this page.
function fit(frame) {
  const inner = frame.contentDocument;
  const main = inner?.getElementById("view");
  if (!main) return;
  Object.assign(inner.body.style, { margin: "0", background: "transparent" });
  dye(frame);
  new ResizeObserver(() => {
    if (main.offsetHeight > 100) frame.style.height = `${main.offsetHeight + 2}px`;
  }).observe(main);
}

function dye(frame) {
  const inner = frame.contentDocument?.documentElement;
  if (!inner) return;
  const page = getComputedStyle(document.body);
  const paint = { "--jp-layout-color1": "background-primary", "--jp-ui-font-color1": "foreground-primary" };
  inner.style.colorScheme = dark() ? "dark" : "light";
  for (const [name, ours] of Object.entries(paint)) {
    inner.style.setProperty(name, page.getPropertyValue(`--color-${ours}`));
  }
}

// Rows of a long table narrow while one types: every word must occur.
function filter(field) {
  const rows = [...document.querySelectorAll(".site-filtered tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = document.getElementById("site-count");
  const narrow = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, k) => {
      row.hidden = !words.every((word) => texts[k].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = `${shown} of ${rows.length}`;
  };
  field.addEventListener("input", narrow);
  narrow();
}

// What is to be done again when the page changes between light and dark.
function whenDyed(act) {
  new MutationObserver(act).observe(document.body, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
}

addEventListener("DOMContentLoaded", () => {
  const frames = document.querySelectorAll(".site-view");
  for (const frame of frames) {
    frame.addEventListener("load", () => fit(frame));
    fit(frame);
  }
  whenDyed(() => frames.forEach(dye));
  const field = document.getElementById("site-filter");
  if (field) filter(field);
  if (document.querySelector(".site-plot")) {
    drawPlots();
    whenDyed(drawPlots);
  }
});
