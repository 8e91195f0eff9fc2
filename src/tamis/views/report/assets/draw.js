"use strict";

// One chart as SVG: panels above each other with axes and marks, a legend on top, and the value under the pointer.
//
//   figure  {height, legend: [entry], panels: [panel]}
//   entry   {name, look: "line" | "fill" | "dot" | "scale", and the colours of that look}
//   panel   {x: axis, y: axis, part: share of the height, marks: [mark], title}
//   axis    {title, scale: "linear" | "log" | "knots", low, high, knots, ticks: [[place, text]], form, grid, zero, odds}
//           gutter: text of a column to the right, in which a place is a text such as "0.5"
//           wrap: whether long names of ticks take two lines
//   tips    a text for each place; or tip, one for all: a list of texts and fields ["x" or "y", form]
//   mark    {kind: "line" | "bars" | "dots" | "cells" | "lines", x, y, or x0, x1, y0, y1, colours, tips}
//           "lines" join equal values z (rows by y, columns by x) at some levels

(function () {
  const SPACE = "http://www.w3.org/2000/svg";
  const FONT = 12;
  const GUTTER = 62; // width of the column of missing values
  const MIN_SIDE = 0.2; // share of an axis on one side of zero from which that side has a mark
  const REACH = 40; // pixels from the pointer to a mark whose value is shown
  const DASHES = { dash: "8 5", dot: "2 4", dashdot: "8 4 2 4", longdash: "13 5", longdashdot: "13 4 2 4" };
  const pen = document.createElement("canvas").getContext("2d");
  let patterns = 0;

  const list = (value, i) => (Array.isArray(value) ? value[i] : value);

  function measure(text, size = FONT) {
    pen.font = `${size}px system-ui, sans-serif`;
    return pen.measureText(text).width;
  }

  function node(parent, tag, attributes, text) {
    const element = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function write(parent, x, y, text, { anchor = "start", fill, size = FONT, turn = 0, name = "" }) {
    const place = { x, y, fill, "font-size": size, "text-anchor": anchor, "dominant-baseline": "central" };
    if (turn) place.transform = `rotate(${turn} ${x} ${y})`;
    if (name) place.class = name;
    return node(parent, "text", place, text);
  }

  // A text that is no wider than some room.
  function cut(text, room, size = FONT) {
    if (measure(text, size) <= room) return text;
    let n = text.length - 1;
    while (n > 1 && measure(`${text.slice(0, n)}\u2026`, size) > room) n -= 1;
    return `${text.slice(0, n)}\u2026`;
  }

  // A name on one line, or on two that break between two features, or after a space or a sign.
  function wrapped(text, room) {
    if (measure(text) <= room) return [text];
    const fits = (k) => k > 0 && measure(text.slice(0, k)) <= room;
    let end = text.indexOf(" * ") + 2; // of two features each has a line
    if (end === 1 || !fits(end) || measure(text.slice(end)) > room) {
      end = 0;
      for (let k = 1; k < text.length; k += 1) if (" _*/-".includes(text[k - 1]) && fits(k)) end = k;
    }
    return end === 0 ? [cut(text, room)] : [text.slice(0, end).trim(), cut(text.slice(end).trim(), room)];
  }

  function writeLines(parent, x, y, lines, look) {
    if (lines.length === 1) return write(parent, x, y, lines[0], look);
    const element = write(parent, x, y, "", look);
    lines.forEach((line, k) => node(element, "tspan", { x, y: y + (k - 0.5) * FONT * 1.05 }, line));
    return element;
  }

  // ------------------------------------------------------------------ axes

  function short(value) {
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 1e7 || size < 1e-4) return value.toExponential(1).replace(".0e", "e").replace("+", "").replaceAll("-", "\u2212");
    const text = size >= 10000 ? Math.round(value).toLocaleString("en").replaceAll(",", "\u202f") : String(Number(value.toPrecision(4)));
    return text.replace("-", "\u2212");
  }

  const forms = {
    plain: short,
    percent: (v) => `${Number((100 * v).toFixed(1))}%`.replace("-", "\u2212"),
    signed: (v) => (v > 0 ? `+${short(v)}` : short(v)),
    short: (v) => short(Number(v.toPrecision(3))),
    effect: (v) => `${points(v)} (odds \u00d7 ${factor(v)})`,
    odds: (v) => (v === 0 ? "\u00d71" : `\u00d7${factor(v)}`),
  };

  // A log-odds with its sign and two decimals, as tamis.results.text.points.
  function points(value) {
    const text = Math.abs(value).toFixed(2);
    return text === "0.00" ? text : (value < 0 ? "\u2212" : "+") + text;
  }

  // By what odds are multiplied when a value is added to a log-odds: two digits, near 1 three.
  function factor(value) {
    const odds = Math.exp(Math.min(value, 700));
    if (odds < 0.1 || odds >= 10) return short(Number(odds.toPrecision(2)));
    return odds.toFixed(odds >= 1.095 ? 1 : 2);
  }

  // Where a value stands along an axis, from 0 to 1; values beyond its ends stand there.
  function along(axis, value) {
    const { low, high, knots } = axis;
    if (axis.scale === "log") return Math.log(Math.max(value, low) / low) / Math.log(high / low);
    if (axis.scale !== "knots") return (value - low) / (high - low);
    const last = knots.length - 1;
    if (value <= knots[0]) return 0;
    if (value >= knots[last]) return 1;
    let k = 0;
    while (knots[k + 1] < value) k += 1;
    return (k + (value - knots[k]) / (knots[k + 1] - knots[k])) / last;
  }

  function niceStep(range, most) {
    const rough = range / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 2.5, 5, 10].find((n) => n * power >= rough * (1 - 1e-9));
  }

  // A nice step; a smaller one where an axis around zero would have no mark on one side that has room for it.
  function stepAround(low, high, most) {
    const step = niceStep(high - low, most);
    const side = Math.min(-low, high);
    return side < step && side >= MIN_SIDE * (high - low) ? niceStep(side, 2) : step;
  }

  // Values and texts of the marks along an axis, about so many at most.
  function ticks(axis, most) {
    const form = forms[axis.form || "plain"];
    if (axis.ticks) return axis.ticks;
    const { low, high, knots } = axis;
    let values = [];
    if (axis.scale === "log") {
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
        for (const lead of [1, 2, 5]) values.push(lead * 10 ** power);
      }
      values = values.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
      if (values.length > most) values = values.filter((v) => /^1(e|0*$|\.0*$)/.test(String(Number(v.toPrecision(3)))) || String(v).replace(/[0.]/g, "")[0] === "1");
    } else if (axis.scale === "knots") {
      const n = Math.max(2, Math.min(most, knots.length));
      for (let k = 0; k < n; k += 1) {
        const value = knots[Math.round((k * (knots.length - 1)) / (n - 1))];
        const round = Number(value.toPrecision(2));
        values.push(round >= low && round <= high && Math.abs(along(axis, round) - along(axis, value)) < 0.03 ? round : Number(value.toPrecision(3)));
      }
      values = [...new Set(values)];
    } else {
      const step = stepAround(low, high, most);
      for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) values.push(Number((k * step).toPrecision(12)));
    }
    return values.map((v) => [v, form(v)]);
  }

  // ------------------------------------------------------------------ looks

  function hatch(svg, shape, colour, ground) {
    if (!shape) return colour;
    patterns += 1;
    const id = `hatch-${patterns}`;
    const own = node(svg, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    node(own, "rect", { width: 6, height: 6, fill: colour });
    const stroke = { stroke: ground, "stroke-width": 1.2, fill: "none" };
    const paths = { "/": "M-1,1l2,-2M0,6l6,-6M5,7l2,-2", x: "M0,0l6,6M0,6l6,-6", "-": "M0,3h6", "|": "M3,0v6", "+": "M0,3h6M3,0v6" };
    if (shape === ".") node(own, "circle", { cx: 3, cy: 3, r: 1.3, fill: ground });
    else node(own, "path", { d: paths[shape], ...stroke });
    return `url(#${id})`;
  }

  const corners = (n, inner) => {
    const points = [];
    for (let k = 0; k < 2 * n; k += 1) {
      const r = k % 2 ? inner : 1.25;
      const turn = (Math.PI * k) / n - Math.PI / 2;
      points.push(`${(r * Math.cos(turn)).toFixed(3)},${(r * Math.sin(turn)).toFixed(3)}`);
    }
    return `M${points.join("L")}Z`;
  };
  const SYMBOLS = {
    circle: "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    square: "M-.9,-.9h1.8v1.8h-1.8Z",
    diamond: "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",
    "triangle-up": "M0,-1.2L1.1,.8L-1.1,.8Z",
    x: "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z",
    star: corners(5, 0.5),
    cross: "M-.35,-1h.7v.65h.65v.7h-.65v.65h-.7v-.65h-.65v-.7h.65Z",
    bar: "M-.2,-1.1h.4v2.2h-.4Z",
  };

  function dot(parent, x, y, { symbol = "circle", size = 5, fill, edge, width = 1 }) {
    const place = { d: SYMBOLS[symbol], transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${size})`, fill };
    if (edge) Object.assign(place, { stroke: edge, "stroke-width": width / size });
    return node(parent, "path", place);
  }

  // A colour between the stops [[share, #rrggbb], ...].
  function blend(stops, share, colour) {
    const at = Math.min(1, Math.max(0, share));
    let k = 0;
    while (k < stops.length - 2 && stops[k + 1][0] < at) k += 1;
    const [[a, from], [b, to]] = [stops[k], stops[k + 1]];
    const way = (at - a) / (b - a);
    const parts = (hex) => [1, 3, 5].map((i) => parseInt(colour(hex).slice(i, i + 2), 16));
    const [first, second] = [parts(from), parts(to)];
    return first.map((v, i) => Math.round(v + way * (second[i] - v)));
  }

  const isDark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 110;

  // Pieces [[x, y], [x, y]] of the line on which a surface has a level: one or two in each cell of the grid.
  function crossings({ x, y, z }, level) {
    const pieces = [];
    const cross = (a, b) => {
      const [u, v] = [a[2] - level, b[2] - level];
      return u < 0 === v < 0 ? null : [0, 1].map((i) => a[i] + ((b[i] - a[i]) * u) / (u - v));
    };
    for (let j = 0; j + 1 < y.length; j += 1) {
      for (let i = 0; i + 1 < x.length; i += 1) {
        const around = [[0, 0], [0, 1], [1, 1], [1, 0]].map(([a, b]) => [x[i + b], y[j + a], z[j + a][i + b]]);
        const found = around.map((point, k) => cross(point, around[(k + 1) % 4])).filter((point) => point !== null);
        for (let k = 0; k + 1 < found.length; k += 2) pieces.push([found[k], found[k + 1]]);
      }
    }
    return pieces;
  }

  // ------------------------------------------------------------------ marks

  // What is said of the i-th place of a mark, null for nothing.
  function said(mark, i, x, y) {
    if (mark.tips) return list(mark.tips, i);
    if (!mark.tip) return null;
    return mark.tip.map((part) => (Array.isArray(part) ? forms[part[1]](part[0] === "x" ? x : y) : part)).join("");
  }

  const marks = {
    line(svg, mark, place, { colour, hot }) {
      const points = mark.x.map((v, i) => (v === null || mark.y[i] === null ? null : [place.x(v), place.y(mark.y[i])]));
      let d = "";
      points.forEach((point, i) => {
        if (point === null) return;
        const before = i > 0 ? points[i - 1] : null;
        if (before === null) d += `M${point[0].toFixed(2)},${point[1].toFixed(2)}`;
        else if (mark.shape === "hv") d += `H${point[0].toFixed(2)}V${point[1].toFixed(2)}`;
        else d += `L${point[0].toFixed(2)},${point[1].toFixed(2)}`;
        const words = said(mark, i, mark.x[i], mark.y[i]);
        if (words !== null) hot.push([point[0], point[1], words]);
      });
      const look = { d, fill: "none", stroke: colour(mark.colour), "stroke-width": mark.width || 2.2, "stroke-linejoin": "round" };
      if (DASHES[mark.dash]) look["stroke-dasharray"] = DASHES[mark.dash];
      node(svg, "path", look);
    },
    bars(svg, mark, place, { colour, hot, ground, defs }) {
      const looks = new Map();
      mark.x0.forEach((start, i) => {
        const [a, b] = [place.x(start), place.x(mark.x1[i])];
        const [c, d] = [place.y(mark.y0[i]), place.y(mark.y1[i])];
        const key = `${list(mark.colour, i)} ${list(mark.pattern, i) || ""}`;
        if (!looks.has(key)) looks.set(key, hatch(defs, list(mark.pattern, i), colour(list(mark.colour, i)), ground));
        const box = { x: Math.min(a, b), y: Math.min(c, d), width: Math.abs(b - a), height: Math.abs(d - c) };
        for (const name of Object.keys(box)) box[name] = box[name].toFixed(2);
        const look = mark.hollow ? { fill: "none", stroke: colour(list(mark.colour, i)), "stroke-width": 4 } : { fill: looks.get(key) };
        node(svg, "rect", { ...box, ...look });
        const words = said(mark, i, start, mark.y1[i] - mark.y0[i]);
        if (words !== null) hot.push([(a + b) / 2, (c + d) / 2, words]);
      });
    },
    dots(svg, mark, place, { colour, hot }) {
      mark.x.forEach((v, i) => {
        if (v === null || mark.y[i] === null) return;
        const [x, y] = [place.x(v), place.y(mark.y[i])];
        if (mark.low) {
          const [up, down] = [place.y(mark.high[i]), place.y(mark.low[i])];
          node(svg, "path", { d: `M${x - 4},${up}h8M${x},${up}V${down}M${x - 4},${down}h8`, stroke: colour(mark.colour), "stroke-width": 1.2, fill: "none" });
        }
        dot(svg, x, y, { symbol: mark.symbol, size: mark.size, fill: colour(list(mark.colour, i)), edge: mark.edge && colour(mark.edge), width: mark.edgeWidth });
        if (mark.tips) hot.push([x, y, list(mark.tips, i)]);
      });
    },
    cells(svg, mark, place, { colour, hot }) {
      const widest = mark.texts ? Math.max(1, ...mark.texts.map((text) => measure(text, 11))) : 1;
      mark.z.forEach((z, i) => {
        if (z === null) return;
        const rgb = blend(mark.stops, (z - mark.low) / (mark.high - mark.low || 1), colour);
        const [a, b] = [place.x(mark.x0[i]), place.x(mark.x1[i])];
        const [c, d] = [place.y(mark.y0[i]), place.y(mark.y1[i])];
        const gap = mark.gap || 0;
        const box = { x: Math.min(a, b) + gap / 2, y: Math.min(c, d) + gap / 2, width: Math.max(0.5, Math.abs(b - a) - gap), height: Math.max(0.5, Math.abs(d - c) - gap) };
        for (const name of Object.keys(box)) box[name] = box[name].toFixed(2);
        node(svg, "rect", { ...box, fill: `rgb(${rgb})`, ...(gap ? {} : { "shape-rendering": "crispEdges" }) });
        if (mark.texts) {
          const size = Math.min(FONT, (11 * Math.abs(b - a)) / (widest + 4));
          if (size >= 6) write(svg, (a + b) / 2, (c + d) / 2, mark.texts[i], { anchor: "middle", fill: isDark(rgb) ? "#ffffff" : "#000000", size });
        }
        if (mark.tips) hot.push([(a + b) / 2, (c + d) / 2, mark.tips[i]]);
      });
    },
    lines(svg, mark, place, { colour }) {
      for (const level of mark.levels) {
        const pieces = crossings(mark, level).map((piece) => piece.map(([x, y]) => [place.x(x), place.y(y)]));
        if (!pieces.length) continue;
        const d = pieces.map(([[a, b], [c, e]]) => `M${a.toFixed(1)},${b.toFixed(1)}L${c.toFixed(1)},${e.toFixed(1)}`).join("");
        node(svg, "path", { d, fill: "none", stroke: colour(mark.colour), "stroke-width": 0.7, class: "level" });
        const [x, y] = pieces[pieces.length >> 1][0];
        write(svg, x, y, forms.signed(level), { anchor: "middle", fill: colour(mark.colour), size: 10 });
      }
    },
  };

  // ------------------------------------------------------------------ legend

  function legendRows(entries, width) {
    const rows = [[]];
    let used = 0;
    for (const entry of entries) {
      const own = entry.look === "scale" ? 150 + measure(entry.name) : 36 + measure(entry.name);
      if (used + own > width && rows.at(-1).length) {
        rows.push([]);
        used = 0;
      }
      rows.at(-1).push([entry, used]);
      used += own + 14;
    }
    return entries.length ? rows : [];
  }

  function drawEntry(svg, entry, x, y, { colour, ink, ground, defs }) {
    const look = { fill: ink, name: "legend" };
    if (entry.look === "scale") {
      const words = write(svg, x, y, entry.name, look);
      const start = x + measure(entry.name) + 8;
      write(svg, start, y, entry.from, look);
      const from = start + measure(entry.from) + 5;
      for (let k = 0; k < 30; k += 1) {
        node(svg, "rect", { x: from + 2 * k, y: y - 6, width: 2.3, height: 12, fill: `rgb(${blend(entry.stops, k / 29, colour)})` });
      }
      write(svg, from + 66, y, entry.to, look);
      return words;
    }
    if (entry.look === "line") {
      const stroke = { stroke: colour(entry.colour), "stroke-width": 2.4, d: `M${x},${y}h26` };
      if (DASHES[entry.dash]) stroke["stroke-dasharray"] = DASHES[entry.dash];
      node(svg, "path", stroke);
    } else if (entry.look === "fill") {
      node(svg, "rect", { x: x + 6, y: y - 6, width: 14, height: 12, fill: hatch(defs, entry.pattern, colour(entry.colour), ground) });
    } else {
      dot(svg, x + 13, y, { symbol: entry.symbol, size: 5, fill: colour(entry.colour), edge: entry.edge && colour(entry.edge) });
    }
    return write(svg, x + 32, y, entry.name, look);
  }

  // ------------------------------------------------------------------ one chart

  // options: {width, colour: function of a colour, ink, muted, grid, ground}
  function draw(element, figure, options) {
    const { width, colour, ink, muted, grid, ground } = options;
    const rows = legendRows(figure.legend || [], width - 8);
    const panels = figure.panels;
    const top = rows.length * 21 + (panels[0].title ? 28 : 10);
    const labelled = panels.map((panel) => ticks(panel.y, Math.max(2, Math.floor(((panel.part || 1) * figure.height) / 42))));
    const longest = (all) => Math.max(0, ...all.map(([, text]) => measure(text)));
    const titles = panels.map((panel) => (panel.y.title ? wrapped(panel.y.title, 0.9 * figure.height * panel.part) : []));
    const beside = Math.max(...titles.map((lines) => lines.length)); // lines of the turned titles
    const left = Math.min(0.45 * width, 14 + Math.max(...labelled.map(longest)) + (beside ? 6 + 14 * beside : 0));
    const odds = panels.flatMap((panel, k) => (panel.y.odds ? labelled[k].map(([value]) => forms.odds(value)) : []));
    const gutter = panels[0].x.gutter ? GUTTER : 0;
    const right = (odds.length ? 8 + Math.max(...odds.map((text) => measure(text, 11)), measure("odds", 11)) : 12) + gutter;
    const inner = Math.max(40, width - left - right);
    const last = panels.at(-1).x;
    const shownX = last.ticks || ticks(last, Math.max(2, Math.floor(inner / 60)));
    const slot = last.ticks ? inner / Math.max(1, last.ticks.length) : inner;
    const turned = Boolean(last.ticks) && !last.loose && longest(shownX) > slot - 4;
    const foot = (turned ? 16 + 0.72 * Math.min(130, longest(shownX)) : 20) + (last.title ? 20 : 4);
    const gap = panels.some((panel) => panel.title) ? 32 : 14;
    const height = figure.height + top + foot - 40;
    const room = height - top - foot - gap * (panels.length - 1);
    const svg = document.createElementNS(SPACE, "svg");
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, class: "drawing" })) svg.setAttribute(name, value);
    const defs = node(svg, "defs", {});
    const hot = [];
    const shared = { colour, hot, ink, ground, defs };
    rows.forEach((row, k) => row.forEach(([entry, x]) => drawEntry(svg, entry, x + 4, 10 + 21 * k, shared)));
    let start = top;
    panels.forEach((panel, k) => {
      const tall = room * (panel.part || 1 / panels.length);
      const place = {
        x: (v) => (typeof v === "string" ? left + inner + Number(v) * gutter : left + inner * along(panel.x, v)),
        y: (v) => start + tall * (1 - along(panel.y, v)),
      };
      const body = node(svg, "g", { class: "panel" });
      for (const [value, text] of labelled[k]) {
        const y = place.y(value);
        if (panel.y.grid !== false) node(body, "path", { d: `M${left},${y.toFixed(1)}H${left + inner + gutter}`, stroke: colour(grid), "stroke-width": 1 });
        const lines = panel.y.wrap ? wrapped(text, left - 8) : [cut(text, left - 8)];
        writeLines(body, left - 6, y, lines, { anchor: "end", fill: colour(ink), name: "ytick" });
        if (panel.y.odds) write(body, left + inner + gutter + 4, y, forms.odds(value), { fill: colour(muted), size: 11, name: "odds" });
      }
      if (panel.y.odds) write(body, left + inner + gutter + 4, start - 1 > 8 ? start - 8 : 8, "odds", { fill: colour(muted), size: 11 });
      if (panel.x.grid) {
        for (const [value] of shownX) node(body, "path", { d: `M${place.x(value).toFixed(1)},${start}V${start + tall}`, stroke: colour(grid) });
      }
      if (gutter) node(body, "path", { d: `M${left + inner + 3},${start}V${start + tall}`, stroke: colour(muted), "stroke-dasharray": "2 3" });
      if (panel.title) write(body, left, start - 10, cut(panel.title, inner), { fill: colour(ink), name: "ptitle" });
      if (panel.y.title) writeLines(body, 2 + 7 * titles[k].length, start + tall / 2, titles[k], { anchor: "middle", fill: colour(ink), turn: -90, name: "ytitle" });
      for (const mark of panel.marks) marks[mark.kind](body, mark, place, shared);
      if (panel.y.zero) node(body, "path", { d: `M${left},${place.y(0).toFixed(1)}H${left + inner + gutter}`, stroke: colour(muted), "stroke-width": 1 });
      if (panel.x.zero) node(body, "path", { d: `M${place.x(0).toFixed(1)},${start}V${start + tall}`, stroke: colour(muted), "stroke-width": 1 });
      start += tall + gap;
    });
    const base = start - gap;
    let free = -Infinity;
    const end = gutter ? left + inner + gutter / 2 - measure(last.gutter) / 2 - 3 : Infinity; // of the ticks on their line
    for (const [value, text] of shownX) {
      const x = left + inner * along(last, value);
      if (turned) {
        write(svg, x + 4, base + 12, cut(text, 130), { anchor: "end", fill: ink, turn: -45, name: "xtick" });
      } else if (x - measure(text) / 2 > free && x + measure(text) / 2 < end) {
        write(svg, x, base + 14, text, { anchor: "middle", fill: ink, name: "xtick" });
        free = x + measure(text) / 2 + 5;
      }
    }
    if (gutter) write(svg, left + inner + gutter / 2 + 2, base + 14, last.gutter, { anchor: "middle", fill: ink, name: "xtick" });
    if (last.title) write(svg, left + inner / 2, height - 10, cut(last.title, width - 8), { anchor: "middle", fill: ink, name: "xtitle" });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    element.replaceChildren(svg, tip);
    svg.addEventListener("pointermove", (event) => point(event, svg, tip, hot, width));
    svg.addEventListener("pointerleave", () => (tip.hidden = true));
  }

  // Show the text of the mark that is nearest to the pointer.
  function point(event, svg, tip, hot, width) {
    const box = svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = REACH * REACH;
    for (const item of hot) {
      const apart = (item[0] - x) ** 2 + 0.2 * (item[1] - y) ** 2;
      if (apart < least) [best, least] = [item, apart];
    }
    tip.hidden = best === null;
    if (best === null) return;
    tip.textContent = best[2];
    tip.style.left = `${Math.max(0, Math.min(best[0] - tip.offsetWidth / 2, width - tip.offsetWidth))}px`;
    tip.style.top = `${best[1] > 44 ? best[1] - 12 - tip.offsetHeight : best[1] + 14}px`;
  }

  Object.assign(window.tamis, { draw, points, factor });
})();
