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

// A drawing is a page of its own in a frame: as high as what it shows, on the paper of this page.
function fit(frame) {
  const inner = frame.contentDocument;
  if (!inner?.body) return;
  inner.body.style.margin = "0";
  inner.body.style.background = "transparent";
  const main = inner.getElementById("view");
  if (!main) return;
  new ResizeObserver(() => {
    if (main.offsetHeight > 100) frame.style.height = `${main.offsetHeight + 2}px`;
  }).observe(main);
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

addEventListener("DOMContentLoaded", () => {
  for (const frame of document.querySelectorAll(".site-view")) {
    frame.addEventListener("load", () => fit(frame));
    fit(frame);
  }
  const field = document.getElementById("site-filter");
  if (field) filter(field);
  if (document.querySelector(".site-plot")) {
    drawPlots();
    new MutationObserver(drawPlots).observe(document.body, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlots);
  }
});
