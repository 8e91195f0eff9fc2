"use strict";

// What would change a prediction of an additive model: for each feature the closest other value that does so alone.

(function () {
  const { data, predict } = window.tamis;
  const MOST_WHOLE = 500; // whole numbers in a range that are tried one by one
  const HALVINGS = 40;

  // Values of a number to try, in order: what the range can be cut into, or the ends of all cells.
  function candidates(feature, whole) {
    const { low, high, edges } = feature;
    if (whole && high - low <= MOST_WHOLE) {
      return Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, k) => Math.ceil(low) + k);
    }
    const inside = edges.filter((edge) => edge > low && edge < high);
    const behind = inside.map((edge) => edge + 1e-9 * (high - low)); // a curve may jump behind the end of a cell
    return [low, ...inside, ...behind, high].sort((a, b) => a - b);
  }

  // The shortest decimal number from `inside`, where the prediction is another, towards `outside`, where it is not.
  function rounded(inside, outside, changes) {
    for (let digits = 1; digits < 15; digits += 1) {
      const power = 10 ** (digits - 1 - Math.floor(Math.log10(Math.abs(inside) || 1)));
      const value = (inside > outside ? Math.ceil(inside * power) : Math.floor(inside * power)) / power;
      if (Math.abs(value - inside) <= 0.02 * Math.abs(inside - outside) + 0.02 * Math.abs(inside) && changes(value)) return value;
    }
    return inside;
  }

  // The closest value on one side of `now` that changes the prediction, null if there is none.
  function firstChange(now, values, whole, changes) {
    let before = now;
    for (const value of values) {
      if (changes(value)) {
        if (whole) return value;
        let [inside, outside] = [value, before];
        for (let k = 0; k < HALVINGS; k += 1) {
          const middle = (inside + outside) / 2;
          if (changes(middle)) inside = middle;
          else outside = middle;
        }
        return rounded(inside, outside, (found) => found >= Math.min(value, before) && found <= Math.max(value, before) && changes(found));
      }
      before = value;
    }
    return null;
  }

  function ofNumber(feature, j, now, changes) {
    const whole = data.rows.values.every((row) => row[j] === null || Number.isInteger(row[j])) && Number.isInteger(now);
    const inside = Math.min(Math.max(now, feature.low), feature.high);
    const values = candidates(feature, whole);
    const sides = [values.filter((v) => v > inside), values.filter((v) => v < inside).reverse()];
    const found = sides.map((side) => firstChange(inside, side, whole, changes)).filter((v) => v !== null);
    const apart = (v) => Math.abs(v - inside) / (feature.high - feature.low || 1);
    return found.sort((a, b) => apart(a) - apart(b)).slice(0, 1).map((to) => ({ to, apart: apart(to) }));
  }

  function ofCategory(feature, changes) {
    const levels = feature.levels.filter((level) => changes(level));
    return levels.length ? [{ to: levels.length === 1 ? levels[0] : levels, apart: 0 }] : [];
  }

  // For a list of values: [{name, from, to, predicted, apart}], those that move least in the range of training first;
  // `to` is a list where several categories change the prediction. Missing values are left as they are.
  function turns(values) {
    const { predicted } = predict(values);
    const all = data.model.features.flatMap((feature, j) => {
      const now = values[j];
      if (now === null || now === undefined) return [];
      const at = (value) => predict(values.map((old, k) => (k === j ? value : old))).predicted;
      const changes = (value) => at(value) !== predicted;
      const found = feature.kind === "number" ? ofNumber(feature, j, now, changes) : ofCategory(feature, changes);
      return found.map(({ to, apart }) => {
        const then = [...new Set((Array.isArray(to) ? to : [to]).map(at))];
        return { name: feature.name, from: now, to, predicted: then, apart };
      });
    });
    return all.sort((a, b) => a.apart - b.apart);
  }

  window.tamis.turns = turns;
})();
