"use strict";

// Draw the charts, in the colours of the page, and again at the width of the paper for printing.

(function () {
  const data = window.tamis.data;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const config = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false };
  let printing = false;

  // A copy of a figure with every colour that has a counterpart on a dark page replaced by it.
  function recoloured(value) {
    if (Array.isArray(value)) return value.map(recoloured);
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, recoloured(v)]));
    }
    return typeof value === "string" && Object.hasOwn(data.dark, value) ? data.dark[value] : value;
  }

  function draw(id) {
    const element = document.getElementById(id);
    const figure = data.charts[id];
    const shown = dark.matches && !printing ? recoloured(figure) : structuredClone(figure);
    if (printing) shown.layout.width = element.clientWidth;
    return Plotly.react(element, shown.data, shown.layout, config);
  }

  const ids = Object.keys(data.charts);
  const redraw = () => Promise.all(ids.map(draw));

  // One after another, so that the page can be read and scrolled meanwhile.
  async function drawAll() {
    for (const id of ids) {
      await draw(id);
      await new Promise((next) => setTimeout(next, 0));
    }
  }

  function print(on) {
    if (printing === on) return;
    printing = on;
    document.documentElement.classList.toggle("printing", on);
    for (const details of document.querySelectorAll("details")) {
      if (on && !details.open) details.dataset.closed = "";
      if (on) details.open = true;
      else if ("closed" in details.dataset) details.open = false;
      if (!on) delete details.dataset.closed;
    }
    document.querySelectorAll(".scroll > table").forEach((table) => fit(table, on));
    redraw();
  }

  // On paper nothing scrolls: a table that is too wide is made smaller.
  function fit(table, on) {
    table.style.zoom = "";
    const room = table.parentElement.clientWidth;
    if (on && room > 0 && table.offsetWidth > room) table.style.zoom = String(room / table.offsetWidth);
  }

  dark.addEventListener("change", redraw);
  paper.addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.tamis.ready = drawAll();
})();
