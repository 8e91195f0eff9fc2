"use strict";

// A model of kernels: from the values of a row to its scores, as the library computes them.

(function () {
  const { data, lacking, sameLevel, probabilities, decided, cells } = window.tamis;
  const filled = (x) => (lacking(x) ? 0 : x);
  const toNumber = (x) => (x === null || x === undefined || x === "" ? NaN : Number(x));

  // A straight line between the two knots around x; constant outside them.
  function interpolate(x, knots, values) {
    const last = knots.length - 1;
    if (x <= knots[0]) return values[0];
    if (x >= knots[last]) return values[last];
    let low = 0;
    let high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle] <= x) low = middle;
      else high = middle;
    }
    const share = (x - knots[low]) / (knots[low + 1] - knots[low]); // a slope could overflow
    return values[low] * (1 - share) + values[low + 1] * share;
  }

  function encodeNumber(column, value) {
    let z = toNumber(value);
    if (!lacking(z)) {
      z = Math.min(Math.max(z, column.low), column.high);
      if (column.knots) z = interpolate(z, column.knots, column.ranks);
    }
    z = (z - column.centre) / column.scale;
    return lacking(z) && column.fill !== null ? column.fill : z;
  }

  // The position among the known categories; -1 for one that training never saw.
  function encodeCategory(column, value) {
    if (value === null || value === undefined || lacking(value)) return column.fill === null ? NaN : column.fill;
    return column.levels.findIndex((level) => sameLevel(level, value));
  }

  function encode(column, value) {
    return column.kind === "category" ? encodeCategory(column, value) : encodeNumber(column, value);
  }

  // A missing cell is replaced by the mean, and an indicator adds 1 to the squared distance.
  function squaredDifference(x, y, cost) {
    if (cost > 0) return x === y || (lacking(x) && lacking(y)) ? 0 : cost;
    const gap = filled(x) - filled(y);
    return gap * gap + (lacking(x) === lacking(y) ? 0 : 1);
  }

  function distance(n, s, t) {
    return n.columns.reduce((sum, c, k) => sum + n.numbers[k] * squaredDifference(s[c], t[c], n.costs[k]), 0);
  }

  function product(n, s, t) {
    return n.numbers[0] * n.columns.reduce((sum, c) => sum + filled(s[c]) * filled(t[c]), 0) + n.numbers[1];
  }

  const agreement = (n, s, t) => n.columns.filter((c) => s[c] === t[c]).length / n.columns.length;

  // The nodes of a kernel's tree (tamis.kernels.portable): functions of a row s and a case t, and of parts u.
  const leaves = {
    constant: (n) => n.numbers[0],
    distance,
    product,
    agreement,
    "own product": (n, s) => product(n, s, s),
    "own agreement": (n, s) => agreement(n, s, s),
    case: (n, s, t) => evaluated(n.parts[0], t, t),
  };
  const functions = {
    complete: (n, u) => u,
    times: (n, ...u) => u.reduce((a, b) => a * b, 1),
    sum: (n, ...u) => u.reduce((a, b) => a + b, 0),
    decay: (n, u) => Math.exp(-n.numbers[0] * u),
    root: (n, u) => Math.sqrt(u),
    tanh: (n, u) => Math.tanh(u),
    power: (n, u) => Math.pow(u, n.numbers[0]),
    ramp: (n, u) => Math.max(0, 1 - u),
    inverse_root: (n, u) => (u > 0 ? 1 / Math.sqrt(u) : 0),
  };

  function evaluated(n, s, t) {
    if (n.kind in leaves) return leaves[n.kind](n, s, t);
    return functions[n.kind](n, ...n.parts.map((part) => evaluated(part, s, t)));
  }

  // A row that lacks the channel is zero with every case.
  function present(channel, s) {
    const there = (c) => !lacking(s[c]);
    return channel.every ? channel.columns.every(there) : channel.columns.some(there);
  }

  function kernelValue(channel, z, instance) {
    const t = instance.map(toNumber);
    return present(channel, z) && present(channel, t) ? evaluated(channel.value, z, t) : 0;
  }

  // Scores of one row.
  //   values: {feature: value}, or a list in the order of data.columns; null is missing
  //   byPart, byCase: a list per score, in the order of data.parts and data.cases; each adds up to the score
  function predict(values) {
    if (!data.model) throw new Error("this page cannot compute scores of this model");
    const row = cells(values);
    const z = data.columns.map((column, c) => encode(column, row[c]));
    const byPart = data.base.map(() => data.parts.map(() => 0));
    const byCase = data.base.map(() => data.cases.map(() => 0));
    data.model.channels.forEach((channel, l) => {
      data.model.instances.forEach((instance, k) => {
        const value = kernelValue(channel, z, instance);
        data.base.forEach((_, q) => {
          const summand = data.model.coef[q][k][l] * value;
          byPart[q][channel.part] += summand;
          byCase[q][k] += summand;
        });
      });
    });
    const decision = data.base.map((base, q) => base + byPart[q].reduce((a, b) => a + b, 0));
    return {
      decision,
      probability: probabilities(decision, data.model.calibrator),
      byPart,
      byCase,
      predicted: decided(decision),
    };
  }

  Object.assign(window.tamis, { predict, encode });
})();
