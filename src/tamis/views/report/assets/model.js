"use strict";

// The model: from the values of a row to its scores, as the library computes them.

(function () {
  const data = JSON.parse(document.getElementById("tamis-data").textContent);
  const lacking = Number.isNaN;
  const filled = (x) => (lacking(x) ? 0 : x);
  const toNumber = (x) => (x === null || x === undefined || x === "" ? NaN : Number(x));

  // A straight line between the two knots around x; the ends hold beyond them.
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

  // Texts are equal to texts; numbers, true and false are equal by their value.
  function sameLevel(a, b) {
    if (typeof a === "string" || typeof b === "string") return a === b;
    return Number(a) === Number(b);
  }

  // The position among the known categories; -1 for one that training never saw.
  function encodeCategory(column, value) {
    if (value === null || value === undefined || lacking(value)) return column.fill === null ? NaN : column.fill;
    return column.levels.findIndex((level) => sameLevel(level, value));
  }

  function encode(column, value) {
    return column.kind === "category" ? encodeCategory(column, value) : encodeNumber(column, value);
  }

  // A missing cell counts as the mean, and as one unit away from every cell that is there.
  function squaredDistance(s, t, mismatch) {
    let sum = 0;
    for (let c = 0; c < s.length; c += 1) {
      if (mismatch && mismatch[c] > 0) {
        if (s[c] !== t[c] && !(lacking(s[c]) && lacking(t[c]))) sum += mismatch[c];
      } else {
        const gap = filled(s[c]) - filled(t[c]);
        sum += gap * gap + (lacking(s[c]) === lacking(t[c]) ? 0 : 1);
      }
    }
    return sum;
  }

  const product = (s, t) => s.reduce((sum, x, c) => sum + filled(x) * filled(t[c]), 0);
  const share = (s, t) => s.filter((x, c) => x === t[c]).length / s.length;
  const absent = (s) => s.every(lacking);

  const kernels = {
    Gaussian: (k, s, t) => Math.exp((-0.5 / (k.bandwidth * k.bandwidth)) * squaredDistance(s, t, k.mismatch)),
    Laplacian: (k, s, t) => Math.exp(-Math.sqrt(squaredDistance(s, t)) / k.bandwidth),
    Polynomial: (k, s, t) => Math.pow(product(s, t) + k.offset, k.degree),
    Sigmoid: (k, s, t) => Math.tanh(k.scale * product(s, t) - k.offset),
    Categorical: (k, s, t) => share(s, t),
    Mixture: (k, s, t) => {
      const distance = squaredDistance(s, t, k.mismatch);
      const values = k.bandwidths.map((width) => Math.exp((-0.5 / (width * width)) * distance));
      return values.reduce((a, b) => a + b, 0) / values.length;
    },
    Tensor: (k, s, t) => k.kernels.reduce((value, one, c) => value * evaluated(one, [s[c]], [t[c]]), 1),
  };

  const evaluated = (kernel, s, t) => (absent(s) || absent(t) ? 0 : kernels[kernel.kernel](kernel, s, t));

  function kernelValue(channel, z, instance) {
    const s = channel.columns.map((c) => z[c]);
    const t = channel.columns.map((c) => toNumber(instance[c]));
    return evaluated(channel, s, t);
  }

  function probabilities(decision, calibrator) {
    if (calibrator === null) return null;
    if (decision.length === 1) {
      const up = 1 / (1 + Math.exp(-(calibrator.slope * decision[0] + calibrator.offset)));
      return [1 - up, up];
    }
    const top = Math.max(...decision);
    const raised = decision.map((f) => Math.exp(calibrator.slope * (f - top)));
    const sum = raised.reduce((a, b) => a + b, 0);
    return raised.map((r) => r / sum);
  }

  // The predicted class; with one score zero goes to the second class, ties of several to the first.
  function decided(decision) {
    if (decision.length === 1) return data.classes[decision[0] >= 0 ? 1 : 0];
    return data.classes[decision.indexOf(Math.max(...decision))];
  }

  function cells(values) {
    if (Array.isArray(values)) return values;
    return data.columns.map((column) => (Object.hasOwn(values, column.name) ? values[column.name] : null));
  }

  // Scores of one row.
  //   values: {feature: value}, or a list in the order of data.columns; null is missing
  //   byPart, byCase: a list per score, in the order of data.parts and data.cases
  function predict(values) {
    if (!data.model) throw new Error("this page cannot compute scores of this model");
    const row = cells(values);
    const z = data.columns.map((column, c) => encode(column, row[c]));
    const byPart = data.base.map(() => data.parts.map(() => 0));
    const byCase = data.base.map(() => data.cases.map(() => 0));
    data.model.channels.forEach((channel, l) => {
      data.model.instances.forEach((instance, k) => {
        const from = data.model.centre === null ? 0 : data.model.centre[k][l];
        const value = kernelValue(channel, z, instance) - from;
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

  window.tamis = { data, predict, encode };
})();
