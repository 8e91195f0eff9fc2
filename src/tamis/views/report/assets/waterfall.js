"use strict";

// Tables whose rows are the summands of a score, each with a bar that starts where the one before it ends.

(function () {
  const MOST = 24; // rows; the smaller summands are added up
  const LONG_WORD = 22; // letters from which a name may break, as in macros.html.jinja
  const LINES = 20; // of the table of an additive model, with its first and its last
  const { data, points, factor } = window.tamis;

  // A name whose long words may break after an underscore.
  function addName(element, name) {
    for (const word of String(name).split(/(?= )/)) {
      const pieces = word.length > LONG_WORD ? word.match(/[^_]*_+|[^_]+/g) : [word];
      pieces.forEach((piece, k) => {
        if (k) add(element, "wbr");
        element.append(piece);
      });
    }
  }

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

  const shown = (value) => (data.additive ? points(value) : signed(value));

  function add(parent, tag, text = "", name = "") {
    const element = document.createElement(tag);
    if (text !== "") element.textContent = text;
    if (name) element.className = name;
    parent.append(element);
    return element;
  }

  function header(table, caption, first, odds) {
    add(table, "caption", caption);
    const row = add(add(table, "thead"), "tr");
    add(row, "th", first, "words").scope = "col";
    add(row, "th", odds ? "Log-odds" : "Contribution").scope = "col";
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

  // Features, pairs and cases, each the largest first, and one line for all that are too small or round to nothing.
  function grouped(items) {
    const size = (item) => Math.abs(item.value);
    const order = items.filter((item) => points(item.value) !== points(0)).sort((a, b) => size(b) - size(a));
    const kept = order.length > LINES - 2 ? order.slice(0, LINES - 3) : order;
    const rest = items.filter((item) => !kept.includes(item));
    const ranks = ["feature", "pair", "case"];
    const groups = ranks.flatMap((kind) => kept.filter((item) => item.kind === kind));
    if (rest.length) {
      const counted = ranks.map((kind) => [rest.filter((item) => item.kind === kind).length, kind]).filter(([n]) => n > 0);
      const words = counted.map(([n, kind]) => `${n} ${kind}${n === 1 ? "" : "s"}`).join(", ");
      groups.push({ name: "all other", detail: words, value: rest.reduce((total, item) => total + item.value, 0) });
    }
    return groups;
  }

  // first: head of the first column; kind: what one row is, null for groups; items: [{name, detail, value, kind}]
  // odds: whether the sum is a log-odds, so that every summand is named as a factor of the odds too
  function waterfall(table, { caption, first, kind, items, base, score, odds }) {
    table.replaceChildren();
    header(table, caption, first, odds);
    const effect = (value) => shown(value) + (odds ? ` (odds \u00d7 ${factor(value)})` : "");
    const body = add(table, "tbody");
    const start = data.additive ? "starting value" : "base value";
    const steps = [{ name: start, detail: "", from: 0, to: base, end: true }];
    let at = base;
    for (const item of kind === null ? grouped(items) : largest(items, kind)) {
      steps.push({ ...item, from: at, to: at + item.value });
      at += item.value;
    }
    steps.push({ name: odds ? "sum = log-odds" : `sum = ${data.score}`, detail: "", from: 0, to: score, end: true });
    const marks = steps.flatMap((step) => [step.from, step.to]);
    const low = Math.min(...marks);
    const span = Math.max(...marks) - low || 1;
    const scale = (x) => (100 * (x - low)) / span;
    for (const step of steps) {
      const row = add(body, "tr", "", step.end ? "end" : "");
      const name = add(row, "th", "", "words");
      addName(name, step.name);
      name.scope = "row";
      if (step.detail) {
        name.append(" ");
        add(name, "span", step.detail, "detail");
      }
      add(row, "td", step.end ? shown(step.to - step.from) : effect(step.to - step.from));
      const cell = add(row, "td", "", "drawn");
      if (step.to !== step.from) bar(cell, step.from, step.to, scale);
    }
  }

  Object.assign(window.tamis, { waterfall, number, signed, shown, add, addName });
})();
