// What the page does beyond its tables: filters, sorting, curves, and what opens behind a row.
// All of it is drawn from the data at the end of the page, whose points Python has computed; nothing
// is fetched, and every text that comes from a record becomes a text node.
"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const LOOKS = 8, BANDS = 4, SVG = "http://www.w3.org/2000/svg", NONE = "–";
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (space, tag, attributes = {}, ...children) => {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
};
const el = (tag, attributes, ...children) => make(null, tag, attributes, ...children);
const draw = (tag, attributes, ...children) => make(SVG, tag, attributes, ...children);
const number = (value, digits = 2) => {
  if (value === null || Number.isNaN(value)) return NONE;
  const text = (Math.round(value * 10 ** digits) / 10 ** digits + 0).toFixed(digits);
  return text.replace(/^(-?)0\./, "$1.");
};
// A name that may break where its parts meet.
const broken = name => name.split(/(?<=[_+\-,=@])/).flatMap((part, k) => k ? [document.createElement("wbr"), part] : [part]);
const option = (value, text) => el("option", { value }, text);
const labelled = (text, field) => el("label", {}, text, field);

// -- numbers, as Python gives them -------------------------------------------------------------------

const share = thousandths => thousandths === null || thousandths === undefined ? null : thousandths / 1000;
const runsOf = (task, row) => (D.runs[task][row] || []).map(([seed, training, learned, area]) => ({ seed, training, learned, area }));
const areaOf = (task, row) => share(D.curves[task][row]?.[0]);
// Points of a curve: {x: multiple, y: mean, half: of its interval or null}.
const pointsOf = (xs, means = [], halves = []) => xs.flatMap((x, place) =>
  share(means[place]) === null ? [] : [{ x, y: share(means[place]), half: share(halves[place]) }]);
const curveOf = (task, row, xs = D.tasks[task].true) => pointsOf(xs, ...(D.curves[task][row] || []).slice(1));
// The score of what was learned, put at the mean of the tasks; of a row of another section there is none.
const meanCurve = (row, section) => pointsOf(section.multiples, section.means[section.rows.indexOf(row)] || []);
const tasksOfSection = section => D.tasks.flatMap((task, number) =>
  task.protocol === section.protocol && section.tasks.includes(task.name) ? [number] : []);

// -- drawings ----------------------------------------------------------------------------------------

// Names at the ends of their curves, moved apart.
function spread(wanted, apart, bottom) {
  const found = [];
  for (const place of wanted) found.push(found.length ? Math.max(place, found.at(-1) + apart) : place);
  let limit = bottom;
  for (let k = found.length - 1; k >= 0; k--) { found[k] = Math.min(found[k], limit); limit = found[k] - apart; }
  return found;
}
// curves: {label, short (beside its end), points, look (null: faint)}; a small one has no names and no axis titles.
function chart(curves, { small = false, label = "score", names = true } = {}) {
  const width = small ? 220 : narrow() ? 380 : 720, height = small ? 130 : narrow() ? 280 : 360, named = names && !small;
  const [left, right, top, bottom] = small ? [24, 8, 6, 18] : [42, named ? 200 : 16, 10, 40];
  const xs = curves.flatMap(curve => curve.points.map(point => point.x));
  const longest = Math.max(2, ...xs), shortest = Math.min(1, ...xs);
  const x = value => left + Math.log(value / shortest) / Math.log(longest / shortest) * (width - left - right);
  const y = value => top + (1 - Math.min(1, Math.max(0, value))) * (height - top - bottom);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label} against length: ${curves.map(curve => curve.label).slice(0, 12).join(", ")}` });
  for (const value of small ? [0, 1] : [0, .25, .5, .75, 1]) {
    picture.append(draw("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }),
      draw("text", { class: "soft", x: left - 5, y: y(value) + 4, "text-anchor": "end" }, number(value, value % .5 ? 2 : value % 1 ? 1 : 0)));
  }
  const ticks = [];
  for (let tick = 1; tick <= longest * 1.01; tick *= 2) ticks.push(tick);
  if (longest / ticks.at(-1) > 1.2) ticks.push(Math.round(longest * 100) / 100);
  for (const tick of ticks)
    if (!small || tick === 1 || tick === 8 || tick * 2 > longest)
      picture.append(draw("text", { class: "soft", x: x(tick), y: height - bottom + 14, "text-anchor": "middle" }, `${tick}x`));
  picture.append(draw("path", { class: "trained", d: `M${x(1)} ${top}V${height - bottom}` }));
  if (!small) picture.append(
    draw("text", { class: "soft", x: x(1) + 4, y: height - bottom - 6 }, "trained to here"),
    draw("text", { class: "soft", x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "positions of the test / of training"),
    draw("text", { class: "soft", x: -(top + height - bottom) / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle" }, label));
  const drawn = curves.filter(curve => curve.points.length);
  for (const { points, look, label: name } of drawn) {
    const line = points.map(point => `${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("L");
    const path = draw("path", { class: look === null ? "faint" : `curve c${look % LOOKS}`, d: `M${line}` }, draw("title", {}, name));
    const sure = points.filter(point => point.half !== null);
    if (look !== null && sure.length > 1 && drawn.filter(curve => curve.look !== null).length <= BANDS) {
      const up = sure.map(point => `${x(point.x).toFixed(1)} ${y(point.y + point.half).toFixed(1)}`);
      const down = sure.map(point => `${x(point.x).toFixed(1)} ${y(point.y - point.half).toFixed(1)}`).reverse();
      picture.append(draw("path", { class: `band c${look % LOOKS}`, d: `M${[...up, ...down].join("L")}Z` }));
    }
    picture.append(path);
  }
  if (named) {
    const ends = drawn.filter(curve => curve.look !== null).sort((a, b) => b.points.at(-1).y - a.points.at(-1).y);
    const places = spread(ends.map(curve => y(curve.points.at(-1).y)), 14, height - bottom + 10);
    ends.forEach(({ points, look, short: name }, k) => {
      const end = x(points.at(-1).x);
      picture.append(draw("path", { class: `lead c${look % LOOKS}`, d: `M${end + 3} ${y(points.at(-1).y)}L${width - right + 12} ${places[k]}` }),
        draw("text", { class: `c${look % LOOKS}`, x: width - right + 15, y: places[k] + 4 }, name.length > 28 ? name.slice(0, 27) + "…" : name));
    });
  }
  return picture;
}
const legend = curves => el("ul", { class: "legend" }, ...curves.filter(curve => curve.look !== null).map(curve =>
  el("li", {}, draw("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, draw("path", { class: `curve c${curve.look % LOOKS}`, d: "M0 5H26" })), curve.label)));
const narrow = () => matchMedia("(max-width: 40rem)").matches;
const withLegend = (curves, options) => narrow() && !options.small
  ? el("div", {}, chart(curves, { ...options, names: false }), legend(curves)) : chart(curves, options);

function depthMap(task, row) {
  const byLength = D.depths[task][row];
  if (!byLength) return null;
  const { n, multiples, name } = D.tasks[task];
  const lines = n.flatMap((length, place) => byLength[length] ? [[multiples[place], byLength[length]]] : []);
  return el("figure", {}, el("figcaption", {}, name), el("table", { class: "depth", role: "img", "aria-label": `${name}: right tokens by length (rows) and depth of their source (columns)` },
    ...lines.map(([multiple, letters]) => el("tr", {}, el("th", {}, `${multiple}x`), ...[...letters].map(letter => {
      const level = LETTERS.indexOf(letter);
      return level < 0 ? el("td", {}) : el("td", { style: `--h:${Math.round(100 * level / 61)}`, title: number(level / 61) });
    })))));
}
// One row of dots: a seed each, beside the mean.
function seedDots(task, row, look) {
  const runs = runsOf(task, row), picture = draw("svg", { viewBox: "0 0 220 16", role: "img", "aria-label": `areas by seed: ${runs.map(run => number(run.area === null ? null : run.area / 1000)).join(", ")}` });
  const x = value => 24 + value / 1000 * 188;
  picture.append(draw("path", { class: "grid", d: "M24 8H212" }));
  for (const { seed, area, learned } of runs) if (area !== null)
    picture.append(draw("circle", { class: `dot c${look}`, cx: x(area), cy: 8, r: 3.4, "fill-opacity": learned ? .75 : .1 }, draw("title", {}, `seed ${seed}: ${number(area / 1000)}${learned ? "" : ", did not learn"}`)));
  return picture;
}
function sketch(name) {
  const { quantity, distances, curves, map, trained } = D.sketches[name];
  const values = curves.flat().filter(value => value !== null), low = Math.min(...values), high = Math.max(...values);
  const x = distance => 40 + distance / distances.at(-1) * 250, y = value => 10 + (1 - (value - low) / (high - low || 1)) * 110;
  const picture = draw("svg", { viewBox: "0 0 470 150", role: "img", "aria-label": `${quantity} of ${name} by distance, and a map of its attention` });
  picture.append(draw("path", { class: "trained", d: `M${x(trained - 1)} 10V120` }),
    draw("text", { class: "soft", x: x(0), y: 146 }, "0"), draw("text", { class: "soft", x: 165, y: 146, "text-anchor": "middle" }, "distance, tokens"),
    draw("text", { class: "soft", x: 290, y: 146, "text-anchor": "end" }, String(distances.at(-1))),
    draw("text", { class: "soft", x: 36, y: 16, "text-anchor": "end" }, high.toPrecision(2)), draw("text", { class: "soft", x: 36, y: 122, "text-anchor": "end" }, low.toPrecision(2)));
  curves.forEach((curve, head) => {
    let pen = "M";
    const line = curve.map((value, k) => {
      if (value === null) { pen = "M"; return ""; }
      const step = `${pen}${x(distances[k]).toFixed(1)} ${y(value).toFixed(1)}`; pen = "L"; return step;
    }).join("");
    picture.append(draw("path", { class: `curve c${head % LOOKS}`, d: line }, draw("title", {}, curves.length > 1 ? `head ${head + 1}` : "all heads")));
  });
  const side = 16, cell = 7;
  let place = 0;
  for (let query = 0; query < side; query++) for (let key = 0; key <= query; key++) {
    const level = LETTERS.indexOf(map[place++]) / 61;
    picture.append(draw("rect", { x: 330 + key * cell, y: 10 + query * cell, width: cell, height: cell, fill: `color-mix(in srgb, var(--heat) ${Math.round(level * 100)}%, var(--page))` }));
  }
  picture.append(draw("text", { class: "soft", x: 330, y: 146 }, "attention: query ↓ key →"));
  return el("figure", {}, picture, el("figcaption", {}, `${quantity} by distance and attention of one untrained layer whose tokens are all alike`));
}

// -- behind a row ------------------------------------------------------------------------------------

function detail(number_, key) {
  const row = D.rows[number_], tasks = D.tasks.flatMap((_, task) => D.runs[task][number_] ? [task] : []);
  const seeds = [...new Set(tasks.flatMap(task => runsOf(task, number_).map(run => run.seed)))].sort((a, b) => a - b);
  const trainings = new Set(tasks.flatMap(task => runsOf(task, number_).map(run => run.training)));
  const records = tasks.reduce((sum, task) => sum + runsOf(task, number_).length, 0);
  const prose = el("div", { class: "formula" });
  for (const [target, name] of row.classes) prose.append(el("h3", {}, name), html(D.texts[target]));
  const depths = tasks.map(task => depthMap(task, number_)).filter(map => map && map.querySelectorAll("tr:first-child td").length > 2);
  return el("div", { class: "inside" },
    el("div", { class: "cards" }, prose, el("div", {}, D.sketches[row.name] ? sketch(row.name) : null,
      el("dl", {},
        el("dt", {}, "family"), el("dd", {}, row.family), el("dt", {}, "trained as"), el("dd", {}, row.host),
        el("dt", {}, "extension"), el("dd", {}, row.extension), el("dt", {}, "class"), el("dd", {}, row.class),
        el("dt", {}, "settings"), el("dd", {}, row.settings.join(", ") || "none"),
        el("dt", {}, "parameters"), el("dd", {}, row.parameters.toLocaleString("en")),
        el("dt", {}, "links"), el("dd", { class: "links" }, ...linksOf(row, key)),
        el("dt", {}, "records"), el("dd", {}, `${records}, of ${trainings.size} trainings; seeds ${seeds.join(", ")}`)),
      el("p", { class: "small" }, "Repeats a record:"), command(row.command),
      row.explain ? el("p", { class: "small" }, "Explains where it stops, on this task or another:") : null,
      row.explain ? command(row.explain) : null,
      row.explained.length ? el("p", {}, "Explained on ", ...row.explained.flatMap(([task, href], place) => [place ? ", " : "", el("a", { href }, task)])) : null)),
    el("h3", {}, "Score against length, task by task; the number is of the trainings that learned; below it the areas of all, hollow where one did not"),
    el("div", { class: "small-multiples" }, ...tasks.map(task => el("figure", {},
      el("figcaption", {}, `${taskName(task)}  ${number(areaOf(task, number_))}`),
      chart([{ label: row.name, look: 0, points: curveOf(task, number_) }], { small: true, label: taskName(task) }), seedDots(task, number_, 0)))),
    depths.length ? el("h3", {}, "Right tokens by length (down) and depth of their source (across), dark is right") : null,
    depths.length ? el("div", { class: "small-multiples" }, ...depths) : null);
}
const linksOf = (row, key) => [
  el("a", { href: `#?${new URLSearchParams({ open: key })}` }, "this row"),
  ...[...new Set(row.classes.flatMap(([target]) => D.papers[target] || []))].map(id => el("a", { href: `https://arxiv.org/abs/${id}` }, `arXiv ${id}`)),
  ...(D.root ? row.classes.map(([target, name]) => el("a", { href: D.root + D.code[target] }, `code of ${name}`)) : []),
  ...(D.root ? row.yaml.map(name => el("a", { href: `${D.root}conf/${name}.yaml` }, `${name}.yaml`)) : [])];
function command(text) {
  const said = el("span", { class: "small", role: "status" });
  return el("div", {}, el("code", { class: "command" }, text), el("button", { class: "plain", type: "button", onclick: () => copy(text, said) }, "Copy"), said);
}
// Descriptions are made of docstrings by posbench, and never of a record.
function html(text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  return holder.content;
}
const protocols = new Set(D.tasks.map(task => task.protocol));
const taskName = task => protocols.size > 1 && D.tasks[task].protocol !== (D.sections[0] || D.tasks[0]).protocol ? `${D.tasks[task].name}, ${D.tasks[task].protocol}` : D.tasks[task].name;

function toggle(line, open) {
  const button = one("button", line);
  const now = open ?? button.getAttribute("aria-expanded") === "false";
  button.setAttribute("aria-expanded", now);
  line.classList.toggle("open", now);
  if (line.nextElementSibling?.classList.contains("detail")) line.nextElementSibling.remove();
  if (now) line.after(el("tr", { class: "detail" }, el("td", { colspan: line.cells.length }, detail(+line.dataset.r, keyOf(lines.find(each => each.line === line))))));
  const prose = now && one(".formula", line.nextElementSibling);
  if (prose && prose.scrollWidth > prose.clientWidth) Object.assign(prose, { tabIndex: 0, role: "group", ariaLabel: "formulas" });
  remember();
}

// -- tables: sorting, filters, choosing --------------------------------------------------------------

const lines = [];  // every row of a ranked table: {line, row, section}
const chosen = new Set();  // rows by number
const value = cell => cell.dataset.v !== undefined ? +cell.dataset.v : parseFloat(cell.textContent.replace(/[,>< ]/g, ""));

function sort(heading, down) {
  const table = heading.closest("table"), column = heading.cellIndex;
  const text = column === 0 || [...table.tBodies].flatMap(body => [...body.rows]).every(row =>
    row.matches(".class, .detail") || Number.isNaN(value(row.cells[column])));
  down ??= heading.ariaSort ? heading.ariaSort === "ascending" : !text && heading.textContent !== "steps";
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const body of table.tBodies) {  // a class each: none is mixed with another
    const head = all("tr.class", body), rows = all("tr:not(.class):not(.detail)", body);
    const details = new Map(rows.map(row => [row, row.nextElementSibling?.classList.contains("detail") ? row.nextElementSibling : null]));
    const sign = down ? -1 : 1;
    rows.sort((a, b) => {
      const [one_, other] = [a.cells[column], b.cells[column]];
      if (text) return sign * one_.textContent.trim().localeCompare(other.textContent.trim());
      const [x, y] = [value(one_), value(other)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    });
    body.append(...head, ...rows.flatMap(row => details.get(row) ? [row, details.get(row)] : [row]));
  }
}
function sortable(table) {
  for (const heading of all("thead th", table)) {
    const text = heading.textContent, about = heading.title;
    heading.replaceChildren(el("button", { type: "button", onclick: () => sort(heading), onfocus: () => tell(table, about && `${text}: ${about}`) }, text));
  }
}

const controls = {};
function fields() {
  const families = [...new Set(D.rows.map(row => row.family))].sort(), classes = [...new Set(D.rows.map(row => row.class))].sort();
  const hosts = [...new Set(D.rows.map(row => row.host))].sort();
  const select = (name, label, options) => labelled(label, controls[name] = el("select", { id: `by-${name}`, onchange: filter }, ...options));
  controls.text = el("input", { type: "search", id: "by-text", placeholder: "name, / to search", oninput: filter });
  const lengths = [...new Set(D.tasks.flatMap(task => task.multiples))].sort((a, b) => a - b);
  const ends = new Set(D.sections.map(section => section.longest));
  one("#controls").append(labelled("text", controls.text),
    select("family", "family", [option("", "all families"), ...families.map(name => option(name, name))]),
    select("class", "class", [option("", "all classes"), ...classes.map(name => option(name, name))]),
    select("host", "host", [option("", "all hosts"), ...hosts.map(name => option(name, name))]),
    select("task", "score of task", [option("", "all tasks"), ...D.tasks.map((_, task) => option(task, taskName(task)))]),
    select("length", "at length", [option("", ends.size === 1 ? `1x to ${[...ends][0]}x` : "all lengths"), ...lengths.map(length => option(length, `${length}x`))]),
    el("button", { class: "plain", type: "button", id: "reset", onclick: reset }, "Reset"),
    columns(), controls.compare = el("button", { class: "plain", type: "button", id: "compare", disabled: true, onclick: compare }, "Compare"),
    el("span", { id: "count", "aria-live": "polite" }), el("p", { id: "none", role: "status", hidden: true }));
}
// Columns of the ranked tables by their headings; the score of a task comes and goes with its filter.
const without = new Set();
function columns() {
  const names = [...new Set(all(".ranked thead th").flatMap((heading, place) => heading.cellIndex > 1 ? [textOf(heading)] : []))];
  return controls.columns = el("details", { id: "columns" }, el("summary", { class: "plain" }, "Columns"),
    el("div", { onchange: filter }, ...names.map(name => el("label", { class: "check" }, el("input", { type: "checkbox", value: name, checked: true }), name))));
}
function reset() {
  for (const name of FIELDS) controls[name].value = "";
  for (const box of all("input", controls.columns)) box.checked = true;
  for (const row of [...chosen]) choose(row, false);
  filter();
}
function scoreOf(row, section) {
  const task = controls.task.value, length = controls.length.value;
  if (length === "") return areaOf(+task, row);
  const points = task === "" ? meanCurve(row, section) : curveOf(+task, row, D.tasks[+task].multiples);
  return points.find(point => point.x === +length)?.y ?? null;
}
function filter() {
  const words = controls.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const { task, length } = controls, one_ = task.value !== "" || length.value !== "";
  without.clear();
  for (const box of all("input:not(:checked)", controls.columns)) without.add(box.value);
  let shown = 0;
  for (const each of lines) {
    const row = D.rows[each.row];
    const text = `${row.name} ${row.family} ${row.class} ${row.extension} ${row.host}`.toLowerCase();
    const keep = words.every(word => text.includes(word)) && (!controls.family.value || row.family === controls.family.value)
      && (!controls.class.value || row.class === controls.class.value) && (!controls.host.value || row.host === controls.host.value);
    if (!keep && each.line.classList.contains("open")) toggle(each.line, false);
    each.line.hidden = !keep;
    shown += keep;
    const cell = each.line.cells[1];
    cell.hidden = !one_;
    if (one_) {
      const score = scoreOf(each.row, each.section);
      cell.textContent = number(score);
      cell.dataset.v = score ?? NaN;
      if (score === null) cell.removeAttribute("style");
      else cell.style.setProperty("--h", Math.round(100 * Math.min(1, Math.max(0, score))));
    }
  }
  for (const section of all(".ranked")) {
    section.hidden = !all("tbody tr[data-r]", section).some(line => !line.hidden);
    const heading = all("thead th", section)[1];
    heading.hidden = !one_;
    for (const { cellIndex, textContent } of [...heading.parentNode.cells].slice(2))
      for (const row of one("table", section).rows) if (row.cells[cellIndex]) row.cells[cellIndex].hidden = without.has(textContent);
    if (one_) {
      one("button", heading).textContent = `${task.value === "" ? "all tasks" : D.tasks[+task.value].name}${length.value ? ` at ${length.value}x` : ""}`;
      sort(heading, true);
    } else if (heading.ariaSort) {
      heading.removeAttribute("aria-sort");
      for (const body of one("table", section).tBodies) body.append(...lines.filter(each => body.contains(each.line)).flatMap(({ line }) =>
        line.nextElementSibling?.classList.contains("detail") ? [line, line.nextElementSibling] : [line]));
    }
  }
  const others = ["family", "class", "host"].some(name => controls[name].value);
  one("#none").hidden = shown > 0 || !lines.length;
  one("#none").textContent = shown ? "" : words.length ? `No row is called “${controls.text.value.trim()}”${others ? " among these" : ""}. Reset shows all.` : "No row has all of these. Reset shows all.";
  one("#count").textContent = shown === lines.length ? `${shown} rows` : `${shown} of ${lines.length} rows`;
  picture();
}
function choose(row, on) {
  on ? chosen.add(row) : chosen.delete(row);
  for (const { line, row: number_ } of lines) if (number_ === row) {
    one("input", line).checked = on;
    line.classList.toggle("chosen", on);
  }
  controls.compare.disabled = chosen.size < 2 || chosen.size > MOST;
  controls.compare.textContent = chosen.size > MOST ? `${chosen.size} chosen, at most ${MOST}` : chosen.size > 1 ? `Compare ${chosen.size} rows` : `Choose 2 to ${MOST} rows`;
  picture();
}

function places() {  // what only a script fills
  const tables = one("#tables");
  tables.before(el("div", { id: "controls" }));
  tables.lastElementChild.before(el("section", { id: "pictures", hidden: true }, el("h2", {}, "Curves")));
  document.body.append(el("dialog", { id: "comparison", "aria-labelledby": "compared" }));
}
const placeOf = new Map(D.rows.map((row, place) => [row.name, place]));
function tables() {
  D.sections.forEach((section, place) => {
    const table = one("table", all(".ranked")[place]);
    for (const line of all("tbody tr:not(.class)", table)) line.dataset.r = placeOf.get(line.cells[0].firstChild.textContent.trim());
    one("thead tr", table).cells[0].after(el("th", { scope: "col", class: "heat", hidden: true }, "score"));
    sortable(table);
    for (const line of all("tbody tr[data-r]", table)) {
      const row = +line.dataset.r, { name } = D.rows[row], head = line.cells[0];
      const mark = one(".mark", head);
      head.replaceChildren(el("span", { class: "row" },
        el("input", { type: "checkbox", "aria-label": `choose ${name}`, tabindex: -1, onchange: event => choose(row, event.target.checked) }),
        el("button", { type: "button", "aria-expanded": "false", "aria-keyshortcuts": "ArrowLeft ArrowUp ArrowDown", onclick: () => toggle(line),
          onfocus: event => event.target.matches(":focus-visible") && tell(table, "Enter opens a row, the left arrow goes to its box, up and down to others.") }, ...broken(name)), mark));
      head.after(el("td", { hidden: true }));
      head.addEventListener("keydown", event => walk(event, line));
      lines.push({ line, row, section });
    }
  });
  for (const table of all("main table")) {
    const fold = table.closest("details"), name = textOf(fold ? one("summary", fold) : one("h2", table.closest("section")));
    if (fold) fold.id ||= `table-${name.replace(/[^\w]+/g, "-")}`;
    table.parentNode.before(offer(table, name, fold ? fold.id : one("h2", table.closest("section")).id));
  }
  for (const task of all(".task")) task.addEventListener("toggle", () => {
    sortable(one("table", task));
  }, { once: true });
}

// -- two to six rows over each other ------------------------------------------------------------------------

function compare() {
  const rows = [...chosen], names = rows.map(row => D.rows[row].name), box = one("#comparison"), two = rows.length === 2;
  const tasks = D.tasks.flatMap((_, task) => rows.filter(row => D.runs[task][row]).length > 1 ? [task] : []);
  const table = el("table", {}, el("caption", {}, "Areas of what was learned, task by task"),
    el("thead", {}, el("tr", {}, ...["task", ...names, ...(two ? ["difference"] : [])].map(text => el("th", { scope: "col" }, ...broken(text))))),
    el("tbody", {}, ...tasks.map(task => {
      const means = rows.map(row => areaOf(task, row));
      return el("tr", {}, el("th", { scope: "row" }, taskName(task)), ...means.map(area => el("td", {}, number(area))),
        two ? el("td", {}, means.includes(null) ? NONE : number(means[0] - means[1])) : null);
    })));
  const said = [`Of what both have learned: posbench.difference(table, "${names[0]}", "${names[1]}") gives the difference over tasks with its interval.`];
  box.replaceChildren(
    el("header", {}, el("h2", { id: "compared" }, names.join(two ? " and " : ", ")), el("button", { class: "plain", type: "button", onclick: () => box.close(), autofocus: true }, "Close")),
    legend(names.map((label, look) => ({ label, look }))), ...said.map(text => el("p", {}, text)),
    el("div", { class: "small-multiples" }, ...tasks.map(task => el("figure", {}, el("figcaption", {}, taskName(task)),
      chart(rows.map((row, look) => ({ label: names[look], look, points: curveOf(task, row) })), { small: true, label: taskName(task) }),
      ...rows.map((row, look) => seedDots(task, row, look))))),
    offer(table, names.join(" ")), el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "areas task by task" }, table));
  box.showModal();
}

// -- curves of a section -----------------------------------------------------------------------------

function curves() {
  controls.section = el("select", { id: "curves-section", onchange: picture }, ...D.sections.map((section, place) => option(place, section.title)));
  controls.section.selectedIndex = Math.max(0, D.sections.findIndex(section => section.rows.length > 1));
  one("#pictures").append(el("div", { class: "choose" }, labelled("section", controls.section)), el("div", { id: "picture" }));
  one("#pictures").hidden = !D.sections.length;
}
function picture() {
  remember();
  const section = D.sections[+controls.section?.value || 0];
  if (!section || one("#pictures").hidden) return;
  const task = controls.task.value, visible = lines.filter(each => each.section === section && !each.line.hidden).map(each => each.row);
  const rows = chosen.size ? [...chosen] : visible.slice(0, LOOKS);
  const nameIn = row => section.names[section.rows.indexOf(row)] ?? D.rows[row].name;
  const curve = (row, look) => ({ label: D.rows[row].name, short: nameIn(row), look, points: task === "" ? meanCurve(row, section) : curveOf(+task, row) });
  const label = task === "" ? "corrected score of what was learned" : `${D.tasks[+task].name}: ${D.tasks[+task].measure}`;
  one("#picture").replaceChildren(
    el("p", { class: "small" }, "In colour: the rows that you ticked, or else the first of the section. In grey: the others. The filters choose rows and task. Up to four curves of one task have bands, which are 95 % over seeds."),
    el("div", { class: "drawing" }, withLegend([...visible.filter(row => !rows.includes(row)).map(row => curve(row, null)), ...rows.map(curve)], { label })));
}

// -- a link, a copy and a file of each table ---------------------------------------------------------

const MOST = 6, textOf = cell => cell.textContent.trim().replace(/\s+/g, " "), saidOf = new Map();
const tell = (table, text) => { if (saidOf.has(table)) saidOf.get(table).textContent = text || ""; };
// What a table shows, line by line; a sign that ends a cell is taken out of it, or else quoted.
const contents = (table, quoted) => [...table.rows].filter(row => !row.hidden && !row.matches(".detail")).map(row =>
  [...row.cells].filter(cell => !cell.hidden).map(textOf).map(text => quoted && /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text).join(quoted ? "," : "\t")).join("\n") + "\n";
function offer(table, name, anchor) {
  const said = el("span", { class: "small", role: "status" });
  const button = (text, about, onclick) => el("button", { class: "plain", type: "button", "aria-label": `${text} of ${name}`, title: about, onclick }, text);
  saidOf.set(table, said);
  return el("div", { class: "tools" }, anchor ? el("a", { href: `#${anchor}`, "aria-label": `Link to ${name}` }, "Link") : null,
    button("Copy", "with tabs, for a spreadsheet", () => copy(contents(table), said)), button("CSV", "as a file", () => save(contents(table, true), `${name}.csv`)), said);
}
const copy = (text, said) => navigator.clipboard.writeText(text).then(() => { said.textContent = "Copied."; }, () => { said.textContent = "This browser does not let a page copy."; });
function save(text, name) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
// A row is one stop of the tab key: arrows lead to its box, and to the rows above and below.
function walk(event, line) {
  const shown = all("tr[data-r]", line.closest("table")).filter(each => !each.hidden), tag = event.target.localName;
  const to = { ArrowLeft: [line, "input"], ArrowRight: [line, "button"], ArrowUp: [shown[shown.indexOf(line) - 1], tag], ArrowDown: [shown[shown.indexOf(line) + 1], tag] }[event.key];
  if (!to || !to[0]) return;
  event.preventDefault();
  one(to[1], to[0].cells[0]).focus();
}

// -- state in the address ----------------------------------------------------------------------------

const FIELDS = ["text", "family", "class", "host", "task", "length"];
const keyOf = ({ row, section }) => `${D.sections.indexOf(section)}.${D.rows[row].name}`;
let asleep = true;  // until the page is as its address says
function remember() {
  if (asleep) return;
  const state = new URLSearchParams();
  for (const name of FIELDS) if (controls[name].value !== "") state.set(name, name === "task" ? taskName(+controls.task.value) : controls[name].value);
  for (const name of without) state.append("without", name);
  for (const row of chosen) state.append("chosen", D.rows[row].name);
  for (const each of lines) if (each.line.classList.contains("open")) state.append("open", keyOf(each));
  const text = state.toString();
  if (text || location.hash.startsWith("#?")) history.replaceState(null, "", `${location.href.split("#")[0]}${text && `#?${text}`}`);
}
function recall() {
  const state = new URLSearchParams(location.hash.slice(2)), open = state.getAll("open");
  asleep = true;
  for (const name of FIELDS) {
    const field = controls[name], told = state.get(name) ?? "";
    field.value = name === "task" && told ? D.tasks.findIndex((_, task) => taskName(task) === told) : told;
    if (field.selectedIndex < 0) field.value = "";
  }
  for (const box of all("input", controls.columns)) box.checked = !state.getAll("without").includes(box.value);
  for (const row of [...chosen]) choose(row, false);
  for (const name of state.getAll("chosen")) if (placeOf.has(name)) choose(placeOf.get(name), true);
  filter();
  for (const each of lines) toggle(each.line, open.includes(keyOf(each)) && !each.line.hidden);
  one("tr.open")?.scrollIntoView({ block: "center" });
  asleep = false;
}
function follow() {
  if (location.hash.startsWith("#?")) return recall();
  const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  for (let fold = target?.closest("details"); fold; fold = fold.parentNode.closest("details")) fold.open = true;
}

places();
tables();
fields();
curves();
choose(-1, false);
filter();
if (one("#own") && !location.hash.startsWith("#?")) {  // the row that the page is about
  choose(+one("#own").dataset.r, true);
  toggle(one("#own"), true);
}
follow();
asleep = false;
addEventListener("hashchange", follow);
// The buttons of ranked rows already lead the keyboard into their tables.
all(".ranked .scroll").forEach(box => box.removeAttribute("tabindex"));
// The headings of a table stay in view unless it is wider than the page: then it scrolls by itself, and they with it.
const fitted = new ResizeObserver(() => all(".ranked .scroll").forEach(box => box.classList.toggle("whole", one("table", box).offsetWidth <= box.clientWidth)));
[document.body, ...all(".ranked table")].forEach(each => fitted.observe(each));
// The list of columns is below the filters and above the tables: it covers no heading.
new ResizeObserver(([{ target }]) => one("#controls").style.setProperty("--list", `${target.offsetHeight}px`)).observe(one("#columns > div"));
new ResizeObserver(() => document.documentElement.style.setProperty("--below", `${narrow() ? 0 : one("#controls").offsetHeight}px`)).observe(one("#controls"));
document.addEventListener("keydown", event => {
  if (event.key === "/" && !event.target.matches("input, select, textarea")) { event.preventDefault(); controls.text.focus(); }
  if (event.key === "Escape" && controls.columns.open) { controls.columns.open = false; one("summary", controls.columns).focus(); }
  if (event.key === "Escape" && event.target === controls.text) { controls.text.value = ""; filter(); }
});
addEventListener("beforeprint", () => all("#tables details").forEach(each => { each.open = true; }));
