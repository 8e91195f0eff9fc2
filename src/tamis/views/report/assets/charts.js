"use strict";

// Draw the charts, in the colours of the page, and again at the width of the paper for printing.

(function () {
  const { data, draw } = window.tamis;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  let printing = false;

  function drawn(id) {
    const element = document.getElementById(id);
    const onDark = dark.matches && !printing;
    const colour = (value) => (onDark && Object.hasOwn(data.dark, value) ? data.dark[value] : value);
    const { ink, muted, grid, ground } = data.colours;
    const own = { colour, ink: colour(ink), muted, grid, ground: colour(ground) };
    draw(element, data.charts[id], { ...own, width: Math.max(240, Math.floor(element.clientWidth)) });
  }

  const ids = Object.keys(data.charts);
  const redraw = () => ids.forEach(drawn);

  // One after another, so that the page can be read and scrolled meanwhile.
  async function drawAll() {
    for (const id of ids) {
      drawn(id);
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

  let waiting = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });
  dark.addEventListener("change", redraw);
  paper.addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.tamis.ready = drawAll();
})();
