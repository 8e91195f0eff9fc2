"use strict";

// What the page knows, and what models of all kinds share.

(function () {
  const data = JSON.parse(document.getElementById("tamis-data").textContent);
  const lacking = Number.isNaN;

  // Texts are equal to texts; numbers, true and false are equal by their value.
  function sameLevel(a, b) {
    if (typeof a === "string" || typeof b === "string") return a === b;
    return Number(a) === Number(b);
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

  window.tamis = { data, lacking, sameLevel, probabilities, decided, cells };
})();
