"use strict";

// A model of tables (tamis.flagship.tables): from the values of a row to its scores, as the library computes them.

(function () {
  const { data, lacking, sameLevel, probabilities, decided, cells } = window.tamis;
  const model = data.model;
  const gone = (x) => x === null || x === undefined || lacking(x);

  // The position among the known categories; -1 for one that training never saw, null for a missing value.
  function encode(column, value) {
    return gone(value) ? null : column.levels.findIndex((level) => sameLevel(level, value));
  }

  function sizeOf(feature) {
    return feature.edges === null ? feature.levels.length : feature.edges.length - 1;
  }

  // The cell of a value, and the share of the way through it.
  function placed(feature, value) {
    const size = sizeOf(feature);
    if (feature.kind === "category") {
      const code = gone(value) ? feature.fill : encode(feature, value);
      return { cell: code === null ? size : code < 0 ? size + 1 : code, share: 0 };
    }
    let x = gone(value) || value === "" ? NaN : Number(value);
    if (lacking(x)) {
      if (feature.fill === null) return { cell: size, share: 0 };
      x = feature.fill;
    }
    x = Math.min(Math.max(x, feature.low), feature.high);
    const { edges } = feature;
    let cell = 0;
    while (cell < size - 1 && edges[cell + 1] < x) cell += 1;
    const width = edges[cell + 1] - edges[cell];
    return { cell, share: width > 0 ? (x - edges[cell]) / width : 0 };
  }

  const between = (left, right, share) => left + share * (right - left);

  function apart(feature, own, cell, at) {
    const { gap, left, right } = feature.similarity;
    const size = sizeOf(feature);
    if (feature.kind === "number" && own.cell < size && cell < size) {
      return (between(left[own.cell], right[own.cell], own.share) - at) ** 2;
    }
    return own.cell === cell ? 0 : gap;
  }

  // Scores of one row.
  //   values: {feature: value}, or a list in the order of data.columns; null is missing
  //   byPart, byCase: a list per score, in the order of data.parts and data.cases; the part "cases" is the sum of the
  //   cases, and all parts together add up to the score
  //   similarity: of the row and each case, from 0 to 1
  function predict(values) {
    const row = cells(values);
    const places = model.features.map((feature, j) => placed(feature, row[j]));
    const outputs = model.intercept.map((_, q) => q);
    const features = model.features.map(({ left, right }, j) => {
      const { cell, share } = places[j];
      return outputs.map((q) => between(left[cell][q], right[cell][q], share));
    });
    const pairs = model.pairs.map(({ features: [a, b], groups, values: table }) => table[groups[0][places[a].cell]][groups[1][places[b].cell]]);
    const similarity = model.cases.map((one) => {
      return Math.exp(-model.features.reduce((sum, feature, j) => sum + apart(feature, places[j], one.cells[j], one.at[j]), 0));
    });
    const pulls = model.cases.map((one, k) => one.pull.map((pull) => similarity[k] * pull));
    const decision = outputs.map((q) => [...features, ...pairs, ...pulls].reduce((sum, part) => sum + part[q], model.intercept[q]));
    const byCase = outputs.map((q) => data.order.cases.map((k) => pulls[k][q]));
    const together = outputs.map((q) => pulls.reduce((sum, pull) => sum + pull[q], 0));
    const summands = [...features, ...pairs, together];
    const byPart = outputs.map((q) => data.order.parts.map((k) => summands[k][q]));
    const probability = probabilities(decision, model.probability);
    return { decision, probability, byPart, byCase, similarity: data.order.cases.map((k) => similarity[k]), predicted: decided(decision) };
  }

  Object.assign(window.tamis, { predict, encode });
})();
