"use strict";

// The panel that explains one prediction: choose a row or type values, and see the score taken apart.

(function () {
  const { data, predict, encode, turns, waterfall, number, signed, shown, add, addName } = window.tamis;
  const get = (id) => document.getElementById(id);
  const find = get("row-find");
  const pick = get("row-pick");
  const output = get("output-pick");
  const several = data.outputs.length > 1;
  const MOST_TURNS = 6; // changes of single values that are listed
  const count = data.rows.labels.length;
  const text = (value) => (value === null || value === undefined ? "missing" : String(value));
  const TOLERANCE = 1e-9;
  const fields = []; // {column, element, hint}, by column
  let chosen = null; // position of the row whose values are in the fields, null once they were changed
  let origin = null; // position of the row that the values come from

  // ------------------------------------------------------------------ rows

  function rowWords(i) {
    const { labels, truth, predicted } = data.rows;
    const words = `${text(labels[i])}: predicted ${predicted[i]}`;
    if (truth === null) return words;
    return truth[i] === predicted[i] ? `${words}, right` : `${words}, wrong, true class ${truth[i]}`;
  }

  function listRows() {
    const wanted = find.value.trim().toLowerCase();
    const current = pick.value;
    pick.replaceChildren();
    const own = add(pick, "option", data.model ? "entered values" : "choose a row");
    own.value = "";
    let found = 0;
    for (let i = 0; i < count; i += 1) {
      const words = rowWords(i);
      const fits = words.toLowerCase().includes(wanted);
      if (fits || i === chosen) add(pick, "option", words).value = String(i);
      if (fits) found += 1;
    }
    pick.value = current;
    const part = count < data.rows.total ? `${count} of ${data.rows.total} test rows are on this page. ` : "";
    get("row-note").textContent = part + (wanted ? `${found} rows match "${find.value.trim()}".` : "");
  }

  // The enter key takes the first row that was found.
  function takeFirst(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const wanted = find.value.trim().toLowerCase();
    const fit = [...pick.options].find((option) => option.value && option.text.toLowerCase().includes(wanted));
    if (!fit) return;
    pick.value = fit.value;
    choose();
  }

  // ------------------------------------------------------------------ fields

  function makeField(c) {
    const column = data.columns[c];
    const holder = add(get("inputs"), "div", "", "field");
    const label = add(holder, "label");
    addName(label, column.name);
    label.htmlFor = `input-${c}`;
    const element = add(holder, column.kind === "category" ? "select" : "input");
    element.id = `input-${c}`;
    const hint = add(holder, "p", "", "hint");
    hint.id = `hint-${c}`;
    element.setAttribute("aria-describedby", hint.id);
    if (column.kind === "category") {
      add(element, "option", "missing").value = "";
      column.levels.forEach((level, k) => (add(element, "option", String(level)).value = String(k)));
      add(element, "option", "another value").value = "-1";
    } else {
      element.type = "number";
      element.step = "any";
      element.placeholder = "missing";
    }
    element.addEventListener("input", typed);
    fields[c] = { column, element, hint };
  }

  function setField({ column, element }, value) {
    if (value === null || value === undefined) element.value = "";
    else if (column.kind === "number") element.value = String(value);
    else element.value = String(encode(column, value));
  }

  function fieldValue({ column, element }) {
    if (element.value === "") return null;
    if (column.kind === "number") return Number(element.value);
    return element.value === "-1" ? undefinedLevel(column) : column.levels[Number(element.value)];
  }

  // A category that is none of the known ones.
  function undefinedLevel(column) {
    let name = "another value";
    while (column.levels.includes(name)) name += "'";
    return name;
  }

  // A remark about the value of a field, "" if there is none.
  function remark({ column, element }) {
    if (column.kind === "category") {
      const unseen = data.additive ? "not seen in training and contributes nothing" : "not seen in training and similar to no kept case";
      return element.value === "-1" ? unseen : "";
    }
    if (element.validity.badInput) return "not a number and treated as missing";
    const value = Number(element.value);
    if (element.value === "" || (value >= column.low && value <= column.high)) return "";
    const nearest = value < column.low ? column.low : column.high;
    return `outside the training range and treated as ${number(nearest)}`;
  }

  function rangeWords(column) {
    if (column.kind === "category") return "";
    return `training range ${number(column.low)} to ${number(column.high)}`;
  }

  function typed() {
    chosen = null;
    pick.value = "";
    show();
  }

  function choose() {
    chosen = pick.value === "" ? null : Number(pick.value);
    if (chosen !== null) {
      origin = chosen;
      fields.forEach((field, c) => setField(field, data.rows.values[chosen][c]));
    }
    show();
  }

  // ------------------------------------------------------------------ result

  function stored(i) {
    const { decision, probability, byPart, byCase, predicted } = data.rows;
    return {
      decision: decision[i],
      probability: probability === null ? null : probability[i],
      byPart: byPart[i],
      byCase: byCase[i],
      predicted: predicted[i],
    };
  }

  function show() {
    const ready = data.model !== null || chosen !== null;
    get("why-result").hidden = !ready;
    if (!ready) return;
    const values = fields.map(fieldValue);
    const result = data.model ? predict(values) : stored(chosen);
    const remarks = [];
    for (const field of fields) {
      const words = data.model ? remark(field) : "";
      field.hint.textContent = words || rangeWords(field.column);
      field.hint.classList.toggle("alert", words !== "");
      if (words) remarks.push(`${field.column.name} is ${words}.`);
    }
    if (data.model && chosen !== null) remarks.push(...differences(result));
    showVerdict(result, remarks);
    showScores(result);
    showSplit(result, values);
    if (turns) showTurns(values);
  }

  // The page's own numbers against those that came with it.
  function differences(result) {
    const gap = Math.max(...result.decision.map((f, q) => Math.abs(f - data.rows.decision[chosen][q])));
    return gap <= TOLERANCE ? [] : [`This score differs from the stored one by ${number(gap)}. Use the stored one.`];
  }

  function truthWords(result) {
    if (chosen === null && origin === null) return "The values were entered.";
    if (chosen === null) return `The values of row ${text(data.rows.labels[origin])} were changed.`;
    const label = text(data.rows.labels[chosen]);
    if (data.rows.truth === null) return `Row ${label}; its true class is not known.`;
    const truth = data.rows.truth[chosen];
    const right = truth === result.predicted;
    return `The true class of row ${label} is ${truth}: the prediction is ${right ? "right" : "wrong"}.`;
  }

  // A probability; none is shown as certain.
  function percent(probability) {
    if (probability > 0.999) return "over 99.9%";
    return probability < 0.001 ? "under 0.1%" : `${(100 * probability).toFixed(1)}%`;
  }

  function showVerdict(result, remarks) {
    const k = data.classes.indexOf(result.predicted);
    if (data.weightShift !== 0) {
      const from = 1 / (1 + Math.exp(data.weightShift));
      remarks.push(`With the class weights, ${data.classes[1]} is predicted from a probability of ${percent(from)} on.`);
    }
    const sure = result.probability === null ? "" : `, probability ${percent(result.probability[k])}`;
    get("said").textContent = `Predicted: ${result.predicted}${sure}`;
    get("truth").textContent = truthWords(result);
    get("remarks").replaceChildren();
    remarks.forEach((words) => add(get("remarks"), "li", words));
  }

  function showScores(result) {
    const table = get("class-scores");
    table.parentElement.hidden = !several && (data.additive || result.probability === null);
    const body = table.tBodies[0];
    body.replaceChildren();
    data.classes.forEach((name, k) => {
      const row = add(body, "tr");
      add(row, "th", String(name), "words").scope = "row";
      const score = several ? result.decision[k] : (k === 1 ? 1 : -1) * result.decision[0];
      add(row, "td", shown(score));
      add(row, "td", result.probability === null ? "not known" : percent(result.probability[k]));
    });
  }

  function explainedOutput(result) {
    if (!several) return 0;
    return output.value === "" ? data.classes.indexOf(result.predicted) : Number(output.value);
  }

  // The values of a feature or a pair; a larger group would fill the line, and its values stand in the fields.
  function partDetail(part, values) {
    if (part.features.length > 2) return "";
    const places = part.features.map((name) => data.columns.findIndex((column) => column.name === name));
    return places.map((c) => (typeof values[c] === "number" ? number(values[c]) : text(values[c]))).join(", ");
  }

  const caseName = (label) => (typeof label === "number" ? `row ${label}` : text(label));

  // The odds of a log-odds in words: 4.2 to 1, or 1 to 4.2.
  function oddsWords(logOdds) {
    const odds = Math.exp(Math.abs(logOdds));
    if (!Number.isFinite(odds)) return "beyond all numbers";
    const words = odds < 1000 ? number(odds, 3) : `more than ${10 ** Math.floor(Math.log10(odds))}`;
    return logOdds >= 0 ? `${words} to 1` : `1 to ${words}`;
  }

  // The class that is explained and the one it is compared with, as their scores: the most likely other one.
  function compared(result) {
    const first = explainedOutput(result);
    if (!several) return { first, second: null, name: String(data.outputs[0]), other: String(data.classes[0]) };
    const others = data.outputs.map((_, q) => q).filter((q) => q !== first);
    const second = others.reduce((best, q) => (result.decision[q] > result.decision[best] ? q : best));
    return { first, second, name: String(data.outputs[first]), other: String(data.outputs[second]) };
  }

  // One log-odds taken apart; of several classes that of the explained one against the most likely other one.
  function splitTables(result, values) {
    const { first, second, name, other } = compared(result);
    const taken = (by) => (second === null ? by[first] : by[first].map((value, k) => value - by[second][k]));
    const one = (by) => (second === null ? by[first] : by[first] - by[second]);
    const [base, score] = [one(data.base), one(result.decision)];
    const [byPart, byCase] = [taken(result.byPart), taken(result.byCase)];
    const which = second === null ? "" : ", the most likely other class";
    const weights = second === null ? data.weightShift : 0;
    const without = weights === 0 ? "" : `Without the ${shown(weights)} of the class weights they are ${shown(score - weights)}. `;
    get("sum").textContent =
      `The log-odds of ${name} against ${other}${which}: starting value ${shown(base)} (the same for every row), ` +
      `all contributions ${shown(score - base)}, sum ${shown(score)}. ` +
      `${without}The odds of ${name}${second === null ? "" : ` against ${other}`} are ${oddsWords(score - weights)}.`;
    const parts = data.parts
      .map((part, k) => ({ part, value: byPart[k] }))
      .filter(({ part }) => part.kind !== "cases")
      .map(({ part, value }) => {
        return { name: part.name, detail: partDetail(part, values), value, kind: part.kind === "pair" ? "pair" : "feature" };
      });
    const cases = data.cases.map(({ label, truth }, k) => {
      const known = truth === null ? "" : ` (${truth})`;
      return { name: `resembles ${caseName(label)}${known}`, detail: `${result.similarity[k].toFixed(2)}\u00a0of\u00a01`, value: byCase[k], kind: "case" };
    });
    const caption = `Why the log-odds of ${name} against ${other} are ${shown(score)}`;
    waterfall(get("by-part"), { caption, first: "Contribution of", kind: null, items: [...parts, ...cases], base, score, odds: true });
  }

  // ------------------------------------------------------------------ what would change the prediction

  function valueWords(value) {
    if (Array.isArray(value)) return value.map(valueWords).join(" or ");
    return typeof value === "number" ? number(value, 6) : text(value);
  }

  function showTurns(values) {
    const found = turns(values);
    const table = get("turns");
    table.parentElement.hidden = found.length === 0;
    const more = found.length > MOST_TURNS ? ` The ${MOST_TURNS} smallest of ${found.length} changes are shown.` : "";
    get("turns-note").textContent = found.length
      ? `Each line changes one value by as little as possible and leaves all others as they are.${more} It says what the model would predict, not what would happen.`
      : "No change of a single value within its training range changes the prediction.";
    table.tBodies[0].replaceChildren();
    for (const { name, from, to, predicted } of found.slice(0, MOST_TURNS)) {
      const row = add(table.tBodies[0], "tr");
      const head = add(row, "th", "", "words");
      addName(head, name);
      head.scope = "row";
      add(row, "td", valueWords(from), "words");
      add(row, "td", valueWords(to), "words");
      add(row, "td", predicted.map(String).join(" or "), "words");
    }
  }

  function showSplit(result, values) {
    if (data.additive) {
      splitTables(result, values);
      return;
    }
    const q = explainedOutput(result);
    const [base, score] = [data.base[q], result.decision[q]];
    const total = result.byPart[q].reduce((a, b) => a + b, 0);
    const name = String(data.outputs[q]);
    const meaning = several ? `The score of ${name}` : `The ${data.score} (above zero: ${name}, below: ${data.classes[0]})`;
    get("sum").textContent =
      `${meaning}: base value ${signed(base)}, contributions ${signed(total)}; ` +
      `${signed(base)} ${total < 0 ? "\u2212" : "+"} ${Math.abs(total).toFixed(4)} = ${signed(base + total)}.`;
    const parts = data.parts.map((part, k) => {
      return { name: part.name, detail: partDetail(part, values), value: result.byPart[q][k] };
    });
    const cases = data.cases.map(({ label, truth }, k) => {
      return { name: caseName(label), detail: truth === null ? "not known" : String(truth), value: result.byCase[q][k] };
    });
    const caption = (what) => `The ${data.score} of ${name}, split by ${what}`;
    const byPart = { caption: caption("feature"), first: "Feature and value", kind: "feature", items: parts };
    const byCase = { caption: caption("kept case"), first: "Case and class", kind: "case", items: cases };
    const odds = data.score === "log-odds";
    waterfall(get("by-part"), { ...byPart, base, score, odds });
    waterfall(get("by-case"), { ...byCase, base, score, odds });
  }

  // ------------------------------------------------------------------ start

  function begin() {
    data.inputs.forEach(makeField);
    get("why-intro").hidden = data.model === null;
    get("why-stored").hidden = data.model !== null;
    get("why-inputs").hidden = data.inputs.length === 0;
    fields.forEach(({ element }) => (element.disabled = data.model === null));
    get("output-label").hidden = !several;
    add(output, "option", "the predicted class").value = "";
    data.outputs.forEach((name, q) => (add(output, "option", String(name)).value = String(q)));
    listRows();
    if (count > 0) pick.value = "0";
    else fields.forEach((field, c) => data.start && setField(field, data.start[c]));
    choose();
    find.addEventListener("input", listRows);
    find.addEventListener("keydown", takeFirst);
    pick.addEventListener("change", choose);
    output.addEventListener("change", show);
    get("why-form").addEventListener("submit", (event) => event.preventDefault());
  }

  begin();
})();
