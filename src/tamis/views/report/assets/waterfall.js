"use strict";

// Tables whose rows are the summands of a score, each with a bar that starts where the one before it ends.

(function () {
  const MOST = 24; // rows; the smaller summands are added up

  // A number as the rest of the page writes it.
  function number(value, digits = 4) {
    if (value === null || !Number.isFinite(value)) return "unknown";
    const size = Math.abs(value);
    if (size === 0) return "0";
    let text;
    if (size < 1e-4 || size >= 1e9) text = value.toExponential(digits - 1).replace("+", "");
    else text = value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
    if (text.includes(".") && !text.includes("e")) text = text.replace(/\.?0+$/, "");
    return text.replaceAll("-", "\u2212");
  }

  // With its sign and four decimals, or in powers of ten where these would all be zero.
  function signed(value) {
    const size = Math.abs(value);
    if (size === 0) return "0.0000";
    const text = size < 5e-5 ? size.toExponential(1).replace("-", "\u2212") : size.toFixed(4);
    return (value < 0 ? "\u2212" : "+") + text;
  }

  function add(parent, tag, text = "", name = "") {
    const element = document.createElement(tag);
    if (text !== "") element.textContent = text;
    if (name) element.className = name;
    parent.append(element);
    return element;
  }

  // With the factor of the odds, where the score is a log-odds.
  function effect(value) {
    const odds = window.tamis.data.score === "log-odds" ? ` (odds \u00d7 ${number(Math.exp(Math.min(value, 700)), 3)})` : "";
    return signed(value) + odds;
  }

  function header(table, caption, first) {
    add(table, "caption", caption);
    const row = add(add(table, "thead"), "tr");
    add(row, "th", first, "words").scope = "col";
    add(row, "th", window.tamis.data.score === "log-odds" ? "Log-odds" : "Contribution").scope = "col";
    add(row, "th", "Running sum", "words drawn").scope = "col";
  }

  function bar(cell, from, to, scale) {
    const track = add(cell, "span", "", "track");
    const mark = add(track, "span", "", to < from ? "bar down" : "bar up");
    mark.style.left = `${scale(Math.min(from, to))}%`;
    mark.style.width = `${Math.max(0.6, Math.abs(scale(to) - scale(from)))}%`;
    const zero = add(track, "span", "", "zero");
    zero.style.left = `${scale(0)}%`;
  }

  // The largest summands, one line for all others, and one for those that are zero.
  function largest(items, kind) {
    const nothing = items.filter((item) => item.value === 0).length;
    const order = items.filter((item) => item.value !== 0).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const shown = order.length <= MOST + 1 ? order : order.slice(0, MOST);
    const rest = order.slice(shown.length);
    const sum = rest.reduce((total, item) => total + item.value, 0);
    const counted = (n, which) => `${n} ${which}${kind}${n === 1 ? "" : "s"}`;
    if (rest.length) shown.push({ name: `${counted(rest.length, "smaller ")} together`, detail: "", value: sum });
    if (nothing) shown.push({ name: counted(nothing, nothing < items.length ? "other " : ""), detail: "", value: 0 });
    return shown;
  }

  // first: head of the first column; kind: what one row is; items: [{name, detail, value}]
  function waterfall(table, { caption, first, kind, items, base, score }) {
    table.replaceChildren();
    header(table, caption, first);
    const body = add(table, "tbody");
    const steps = [{ name: "base value", detail: "", from: 0, to: base, end: true }];
    let at = base;
    for (const item of largest(items, kind)) {
      steps.push({ ...item, from: at, to: at + item.value });
      at += item.value;
    }
    steps.push({ name: `sum = ${window.tamis.data.score}`, detail: "", from: 0, to: score, end: true });
    const marks = steps.flatMap((step) => [step.from, step.to]);
    const low = Math.min(...marks);
    const span = Math.max(...marks) - low || 1;
    const scale = (x) => (100 * (x - low)) / span;
    for (const step of steps) {
      const row = add(body, "tr", "", step.end ? "end" : "");
      const name = add(row, "th", step.name, "words");
      name.scope = "row";
      if (step.detail) add(name, "span", step.detail, "detail");
      add(row, "td", step.end ? signed(step.to - step.from) : effect(step.to - step.from));
      const cell = add(row, "td", "", "drawn");
      if (step.to !== step.from) bar(cell, step.from, step.to, scale);
    }
  }

  Object.assign(window.tamis, { waterfall, number, signed, add });
})();
