"use strict";
const root = document.documentElement;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
for (const button of document.querySelectorAll("[data-toggle]")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", shown);
    for (const mark of document.querySelectorAll("[data-series]"))
      if (mark.dataset.series === button.dataset.toggle) mark.classList.toggle("hidden", !shown);
  });
}
for (const table of document.querySelectorAll("table.sortable")) for (const head of table.querySelectorAll("th[aria-sort]")) {
  head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0], column = head.cellIndex;
    const key = row => row.cells[column].dataset.value;
    const order = (a, b) => {
      // What is not known stays last either way.
      if (!key(a) || !key(b)) return !key(a) - !key(b);
      const x = Number(key(a)), y = Number(key(b));
      const less = Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
      return up ? less : -less;
    };
    body.append(...[...body.rows].sort(order));
  });
}
