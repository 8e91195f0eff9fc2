"use strict";

// Tables whose rows are the summands of a score, each with a bar that starts where the one before it ends.

(function () {
  const MOST = 24; // rows; the smallest summands beyond are added up

  // A number as the rest of the page writes it.
  function number(value, digits = 4) {
    if (value === null || !Number.isFinite(value)) return "unknown";
    const size = Math.abs(value);
    if (size === 0) return "0";
    let text;
    if (size < 1e-4 || size >= 1e9) text = value.toExponential(digits - 1);
    else text = value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
    if (text.includes(".") && !text.includes("e")) text = text.replace(/\.?0+$/, "");
    return text.replaceAll("-", "\u2212");
  }

  // With its sign and four decimals, or in powers of ten where these would all be zero.
  function signed(value) {
    const size = Math.abs(value);
    const text = size > 0 && size < 5e-5 ? size.toExponential(1).replace("-", "\u2212") : size.toFixed(4);
    return (value < 0 ? "\u2212" : "+") + text;
  }

  function add(parent, tag, text = "", name = "") {
    const element = document.createElement(tag);
    if (text !== "") element.textContent = text;
    if (name) element.className = name;
    parent.append(element);
    return element;
  }

  function header(table, caption, names) {
    add(table, "caption", caption);
    const row = add(add(table, "thead"), "tr");
    names.forEach((name, k) => {
      const cell = add(row, "th", name, k < names.length - 2 ? "words" : "");
      cell.scope = "col";
    });
  }

  function bar(cell, from, to, scale) {
    const track = add(cell, "span", "", "track");
    const mark = add(track, "span", "", to < from ? "bar down" : "bar up");
    mark.style.left = `${scale(Math.min(from, to))}%`;
    mark.style.width = `${Math.max(0.6, Math.abs(scale(to) - scale(from)))}%`;
    const zero = add(track, "span", "", "zero");
    zero.style.left = `${scale(0)}%`;
  }

  // The largest summands, and one line for all others.
  function largest(items, others) {
    const order = [...items].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    if (order.length <= MOST + 1) return order;
    const rest = order.slice(MOST);
    const sum = rest.reduce((total, item) => total + item.value, 0);
    return [...order.slice(0, MOST), { name: `${rest.length} ${others} together`, detail: "", value: sum }];
  }

  // caption: of the table; names: of its columns; items: [{name, detail, value}]; ends: [base value, score]
  function waterfall(table, { caption, names, others, items, base, score }) {
    table.replaceChildren();
    header(table, caption, [...names, "Adds", "From the base value to the score"]);
    const body = add(table, "tbody");
    const steps = [{ name: "base value", detail: "", from: 0, to: base, end: true }];
    let at = base;
    for (const item of largest(items, others)) {
      steps.push({ ...item, from: at, to: at + item.value });
      at += item.value;
    }
    steps.push({ name: "score", detail: "", from: 0, to: score, end: true });
    const marks = steps.flatMap((step) => [step.from, step.to]);
    const low = Math.min(...marks);
    const span = Math.max(...marks) - low || 1;
    const scale = (x) => (100 * (x - low)) / span;
    for (const step of steps) {
      const row = add(body, "tr", "", step.end ? "end" : "");
      add(row, "th", step.name, "words").scope = "row";
      if (names.length > 1) add(row, "td", step.detail, "words");
      add(row, "td", signed(step.to - step.from));
      const cell = add(row, "td", "", "drawn");
      bar(cell, step.from, step.to, scale);
    }
  }

  Object.assign(window.tamis, { waterfall, number, signed, add });
})();
