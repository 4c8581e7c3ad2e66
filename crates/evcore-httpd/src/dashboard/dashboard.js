// Requests `history.json`, then `status.json` once a second, and draws the last two minutes.
"use strict";

const WINDOW_MS = 120_000;
// The shortest time that a plot shows. Otherwise a plot begins with the oldest data.
const SHORTEST_MS = 20_000;
const PERIOD_MS = 1_000;
// A request without an answer in this time has failed.
const PATIENCE_MS = 3_000;
// Samples that are farther apart are not joined by a line.
const GAP_MS = 2_500;
// The margins of a plot, in pixels. The bars have the same margins in the style sheet.
const MARGIN = { left: 44, right: 1, top: 8, bottom: 20 };
const QUANTILES = ["p50", "p99", "max"];
const SHAPES = { restart: "M-4-3H4L0 4z", reload: "M0-4 4 0 0 4-4 0z", start: "M-4 3H4L0-4z" };

const $ = (id) => document.getElementById(id);

const state = {
  /** The samples of the last two minutes, oldest first. */
  samples: [],
  /** The events of the last two minutes, oldest first. */
  events: [],
  /** When the page was paused; `null` if it is not. */
  pausedAt: null,
  failures: 0,
  /** When the first of the present failures began. */
  failedAt: 0,
  isAsking: false,
  askedAt: -Infinity,
  /** The timer of the next request. */
  timer: 0,
  /** The time under the pointer, and the one chosen with the slider; `null` is now. */
  hoverAt: null,
  chosenAt: null,
};

/** The time at the right edge. It stands still while the page is paused. */
const edge = () => state.pausedAt ?? performance.now();

/** The time from the left edge of a plot to the right one. */
const span = () => Math.min(WINDOW_MS, Math.max(SHORTEST_MS, edge() - (state.samples[0]?.at ?? edge())));

// ---- Text ----

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const text = (value, format = (number) => whole.format(number)) =>
  value === null || value === undefined || Number.isNaN(value) ? "–" : format(value);
const rate = (value) => (value < 100 ? oneDigit : whole).format(value);
const jain = (value) => value.toFixed(3);
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

const inUnit = (us) => (us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"]);

/** Three digits. */
function microseconds(us) {
  const [value, unit] = inUnit(us);
  const digits = value === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}

/** One digit, for powers of ten. */
function decade(us) {
  const [value, unit] = inUnit(us);
  return `${Number(value.toPrecision(1))} ${unit}`;
}

function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  if (minutes) return `${minutes} min ${seconds % 60} s`;
  return `${seconds} s`;
}

/** A number of bytes, in the unit in which it has up to three digits before the point. */
function bytes(count) {
  let unit = 0;
  for (; count >= 1000 && unit < 4; unit++) count /= 1000;
  return `${unit ? count.toFixed(1) : count} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

// ---- Elements ----

/** Sets the text only if it differs: a screen reader announces each change. */
function write(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// ---- From the server's answer to a sample ----

/**
 * Distinguishes workers of one index, because with `--threads` all have one process id. Both uptimes
 * are of the same clock and moment, so their difference is constant.
 */
const keyOf = (worker, status) => [worker.worker, worker.pid, status.uptime_ms - worker.uptime_ms].join("-");

/** The worker that serves at each index: after a reload, the youngest. */
function newest(workers) {
  const byIndex = new Map();
  for (const worker of workers) {
    const other = byIndex.get(worker.worker);
    if (!other || worker.uptime_ms < other.uptime_ms) byIndex.set(worker.worker, worker);
  }
  return byIndex;
}

/** The highest figure of any worker. */
function worst(workers, name) {
  const highest = (quantile) => Math.max(...workers.map((worker) => worker[name][quantile]));
  return workers.length ? Object.fromEntries(QUANTILES.map((quantile) => [quantile, highest(quantile)])) : null;
}

/** The growth of a counter in a second; `null` without an earlier sample of the same server. */
function perSecond(status, last, name) {
  const ms = last ? status.uptime_ms - last.uptime_ms : 0;
  return ms > 0 ? ((status[name] - last[name]) * 1000) / ms : null;
}

function toSample(status, last, at) {
  // A worker that has just started may have a later clock than the worker that answers, which then
  // reports an uptime of 0. The new worker is shown a second later.
  status.workers = status.workers.filter((worker) => worker.uptime_ms > 0);
  for (const worker of status.workers) worker.key = keyOf(worker, status);
  const byIndex = newest(status.workers);
  return {
    at,
    status,
    byIndex,
    requests: perSecond(status, last, "requests"),
    accepts: perSecond(status, last, "accepted"),
    turn: worst(status.workers, "turn_us"),
    lateness: worst(status.workers, "timer_lateness_us"),
  };
}

/** Returns whether another server answers, whose counters began again at 0. */
const isAnother = (status, last) =>
  status.uptime_ms < last.uptime_ms || status.requests < last.requests || status.restarts < last.restarts;

function take(status, at) {
  const before = state.samples.at(-1);
  const isNew = before && isAnother(status, before.status);
  const sample = toSample(status, isNew ? undefined : before?.status, at);
  if (isNew) {
    note("start", sample, "the server was started again");
  } else if (before) {
    noteChanges(before, sample);
  }
  state.samples.push(sample);
}

function note(kind, sample, what) {
  const ms = sample?.status.time_ms ?? Date.now();
  state.events.push({ kind, at: sample?.at ?? performance.now(), ms, what });
}

function noteChanges(before, sample) {
  const [restarts, reloads] = ["restarts", "reloads"].map((name) => sample.status[name] - before.status[name]);
  if (reloads > 0) note("reload", sample, `${reloads === 1 ? "reload" : `${reloads} reloads`}: new workers have taken over`);
  if (restarts > 0) note("restart", sample, whichRestarted(before, sample, restarts));
}

function whichRestarted(before, sample, restarts) {
  const keys = new Set(sample.status.workers.map((worker) => worker.key));
  const dead = [...before.byIndex.values()].filter((worker) => !keys.has(worker.key));
  if (dead.length !== restarts) return restarts === 1 ? "a worker restarted" : `${restarts} workers restarted`;
  const one = ({ worker, pid }) => {
    const next = sample.byIndex.get(worker)?.pid ?? "…";
    return next === pid ? `worker ${worker} restarted` : `worker ${worker} restarted: ${pid} → ${next}`;
  };
  return dead.map(one).join(", ");
}

/** Drops samples and events that are older than two minutes. */
function forget() {
  const oldest = edge() - WINDOW_MS;
  if (state.chosenAt < oldest) state.chosenAt = null;
  while (state.samples.length > 1 && state.samples[0].at < oldest) state.samples.shift();
  const ends = ({ kind, at, until }) => (kind === "gone" ? (until ?? Infinity) : at);
  state.events = state.events.filter((event) => ends(event) >= oldest);
}

/** The sample that the figures show: the last one, or the one nearest to the chosen time. */
function shown() {
  const at = state.hoverAt ?? state.chosenAt;
  if (at === null) return state.samples.at(-1);
  return state.samples.reduce((a, b) => (Math.abs(b.at - at) < Math.abs(a.at - at) ? b : a), state.samples[0]);
}

// ---- Scales ----

/** A scale from 0 to a round number above `max`, with its ticks. */
function linear(max) {
  const rough = Math.max(max * 1.12, 1) / 4;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((factor) => factor * magnitude >= rough) * magnitude);
  const top = Math.ceil((max * 1.12) / step) * step || step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step);
  return { ticks, place: (value) => value / top };
}

/** A scale from 0 to 1. */
const fraction = () => ({ ticks: [0, 0.5, 1], place: (value) => value / 1.04 });

/** A scale of powers of ten around the values. Lower values are drawn on the base line. */
function logarithmic(max, min) {
  const low = Math.floor(Math.log10(Math.max(min, 0.1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(max, 1) * 1.05)), low + 2);
  const step = Math.ceil((high - low) / 4);
  const ticks = [];
  for (let at = low; at <= high; at += step) ticks.push(10 ** at);
  return { ticks, place: (value) => Math.max(0, (Math.log10(Math.max(value, 1e-9)) - low) / (high - low)) };
}

// ---- Plots ----

class Plot {
  /**
   * `series` returns the lines: `{ name, of, text }`, where `of` takes a sample. `scale` is one of the
   * functions above, `tick` formats its ticks.
   */
  constructor(element, { series, scale, tick, hasArea = false, beside = null }) {
    Object.assign(this, { element, series, scale, tick, hasArea, beside });
    this.parts = ["gone", "grid", "marks", "lines"].map((name) => svg("g", { "data-part": name }));
    this.cursor = svg("line", { class: "cursor" });
    this.svg = svg("svg", { "aria-hidden": "true" }, ...this.parts, this.cursor);
    element.append(this.svg);
    element.addEventListener("pointermove", (event) => this.hover(event));
    element.addEventListener("pointerdown", (event) => this.hover(event));
    element.addEventListener("pointerleave", () => hoverAt(null));
    new ResizeObserver(() => this.draw()).observe(element);
  }

  hover(event) {
    const box = this.element.getBoundingClientRect();
    const across = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    hoverAt(across < 0 ? null : edge() - (1 - across) * span());
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !state.samples.length) return;
    this.width = width;
    this.height = height;
    const series = this.series();
    const values = series.flatMap(({ of }) => state.samples.map(of)).filter((value) => value !== null && value !== undefined);
    const positive = values.filter((value) => value > 0);
    this.range = this.scale(Math.max(0, ...values), positive.length ? Math.min(...positive) : 1);
    const [gone, grid, marks, lines] = this.parts;
    gone.replaceChildren(...this.goneBands());
    grid.replaceChildren(...this.grid());
    marks.replaceChildren(...this.marks());
    lines.replaceChildren(...series.flatMap((one) => this.line(one)));
    this.drawCursor();
  }

  x(at) {
    const inner = this.width - MARGIN.left - MARGIN.right;
    const across = 1 - (edge() - at) / span();
    return MARGIN.left + inner * Math.min(1, Math.max(0, across));
  }

  y(value) {
    const inner = this.height - MARGIN.top - MARGIN.bottom;
    return this.height - MARGIN.bottom - inner * this.range.place(value);
  }

  /** The right end of the grid: behind the bars, if they stand beside the plot. */
  right() {
    if (!this.beside) return this.width;
    const [own, other] = [this.element, this.beside].map((element) => element.getBoundingClientRect());
    return other.left > own.left + 1 ? other.right - own.left : this.width;
  }

  grid() {
    const right = this.right();
    const ticks = this.range.ticks.flatMap((tick) => {
      const y = Math.round(this.y(tick)) + 0.5;
      const label = svg("text", { x: MARGIN.left - 6, y: y + 3.5, "text-anchor": "end" }, this.tick(tick));
      return [svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y, y2: y }), label];
    });
    const base = Math.round(this.height - MARGIN.bottom) + 0.5;
    const seconds = Math.round(span() / 1000);
    const [whole, half] = seconds === 120 ? ["2 min ago", "1 min"] : [`${seconds} s ago`, `${Math.round(seconds / 2)} s`];
    const now = state.pausedAt === null ? "now" : "paused";
    const times = [[1, whole, "start"], [0.5, half, "middle"], [0, now, "end"]];
    const labels = times.map(([share, name, anchor]) => {
      const x = this.x(edge() - share * span());
      return svg("text", { x, y: this.height - 5, "text-anchor": anchor }, name);
    });
    return [...ticks, svg("line", { class: "base", x1: MARGIN.left, x2: this.width, y1: base, y2: base }), ...labels];
  }

  goneBands() {
    return state.events.filter(({ kind }) => kind === "gone").map((event) => {
      const [from, to] = [this.x(event.at), this.x(event.until ?? edge())];
      const height = this.height - MARGIN.top - MARGIN.bottom;
      return svg("rect", { class: "gone", x: from, y: MARGIN.top, width: to - from, height });
    });
  }

  marks() {
    return state.events.filter(({ kind }) => kind in SHAPES).flatMap(({ kind, at, what }) => {
      const x = this.x(at).toFixed(1);
      const line = svg("line", { class: `mark ${kind}`, x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom });
      const shape = svg("path", { class: `mark ${kind}`, d: SHAPES[kind], transform: `translate(${x} 4)` }, svg("title", {}, what));
      return this.beside ? [line, shape] : [line];
    });
  }

  line({ name, of }) {
    let path = "";
    let area = "";
    let last = null;
    const base = this.height - MARGIN.bottom;
    for (const sample of state.samples) {
      const value = of(sample);
      if (value === null || value === undefined) {
        last = null;
        continue;
      }
      const [x, y] = [this.x(sample.at).toFixed(1), this.y(value).toFixed(1)];
      const joins = last !== null && sample.at - last.at < GAP_MS;
      path += `${joins ? "L" : "M"}${x} ${y}`;
      if (joins) area += `M${last.x} ${base}V${last.y}L${x} ${y}V${base}z`;
      last = { at: sample.at, x, y };
    }
    const line = svg("path", { class: `series ${name}`, d: path });
    return this.hasArea ? [svg("path", { class: "area", d: area }), line] : [line];
  }

  drawCursor() {
    const isShown = (state.hoverAt ?? state.chosenAt) !== null;
    this.cursor.style.visibility = isShown ? "visible" : "hidden";
    if (!isShown || !this.width) return;
    const x = this.x(shown().at);
    fill(this.cursor, { x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom }, []);
  }
}

/** A plot with a title and the values of the shown time. */
function chart(id, title, options) {
  const figure = $(id);
  const values = html("p", { class: "values" });
  const element = html("div", { class: "plot" });
  figure.append(html("figcaption", {}, html("h2", {}, title), values), element);
  const plot = new Plot(element, options);
  const series = options.series();
  values.classList.toggle("single", series.length === 1);
  const cells = series.map((one) => {
    const value = html("b", { "data-series": one.name.split(" ").at(-1) }, "–");
    const label = series.length === 1 ? [] : [html("i", { class: `swatch ${one.name}` }), one.label, " "];
    values.append(html("span", {}, ...label, value));
    return [one, value];
  });
  plot.writeValues = (sample) => cells.forEach(([one, value]) => write(value, text(one.of(sample), one.text)));
  return plot;
}

/** The lines of a time: its quantiles. */
const quantilesOf = (name) => () =>
  QUANTILES.map((quantile) => ({
    name: `line ${quantile}`,
    label: quantile,
    of: (sample) => sample[name]?.[quantile],
    text: microseconds,
  }));

const single = (of, format) => () => [{ name: "line", of, text: format }];

/** A line for each index. During a reload, it has the connections of the old and the new worker. */
function workerLines() {
  const indices = new Set(state.samples.flatMap((sample) => [...sample.byIndex.keys()]));
  const activeOf = (sample, index) =>
    sample.status.workers.reduce((sum, worker) => sum + (worker.worker === index ? worker.active : 0), 0);
  return [...indices].sort((a, b) => a - b).map((index) => ({
    name: `worker w${index % 8}`,
    of: (sample) => activeOf(sample, index),
  }));
}

const connections = new Plot($("chart-connections"), {
  series: workerLines,
  scale: linear,
  tick: (value) => whole.format(value),
  beside: $("bars"),
});

const charts = [
  chart("chart-requests", "Requests per second", {
    series: single((sample) => sample.requests, rate),
    scale: linear,
    tick: (value) => whole.format(value),
    hasArea: true,
  }),
  chart("chart-accepts", "Accepts per second", {
    series: single((sample) => sample.accepts, rate),
    scale: linear,
    tick: (value) => whole.format(value),
    hasArea: true,
  }),
  chart("chart-jain", "Jain index (1 is even)", {
    series: single((sample) => sample.status.jain, jain),
    scale: fraction,
    tick: String,
  }),
  chart("chart-turn", "Time of a turn", { series: quantilesOf("turn"), scale: logarithmic, tick: decade }),
  chart("chart-lateness", "Timer lateness", { series: quantilesOf("lateness"), scale: logarithmic, tick: decade }),
];

// ---- Bars ----

/** The place of an index: its bars, one for each of its workers. */
function slotOf(index) {
  const list = $("bars");
  while (list.children.length <= index) {
    const at = list.children.length;
    const name = html("span", { class: "name" }, html("span", { class: "word" }, "worker "), `${at}`);
    name.append(html("span", { class: "process" }, "–"));
    list.append(html("li", { "data-worker": at, class: `w${at % 8}` }, html("span", { class: "count" }), name));
  }
  return list.children[index];
}

function drawBars(sample) {
  const place = connections.range?.place;
  if (!place) return;
  const percent = (value) => `${(100 * place(value)).toFixed(2)}%`;
  const list = $("bars");
  const here = new Set(sample.status.workers.map((worker) => worker.key));
  for (const bar of list.querySelectorAll(".bar")) {
    if (!here.has(bar.dataset.key)) dismiss(bar);
  }
  for (const worker of sample.status.workers) {
    barOf(worker, sample.byIndex.get(worker.worker) === worker).style.height = percent(worker.active);
  }
  for (const [index, slot] of [...list.children].entries()) {
    const worker = sample.byIndex.get(index);
    slot.classList.toggle("draining", slot.querySelector(".bar.old:not(.leaving)") !== null);
    write(slot.querySelector(".count"), text(worker?.active));
    slot.querySelector(".count").style.bottom = percent(worker?.active ?? 0);
    write(slot.querySelector(".process"), worker ? String(worker.pid) : "no process");
  }
  const count = sample.byIndex.size;
  list.classList.toggle("dense", list.children.length > 6);
  list.classList.toggle("packed", list.children.length > 16);
  list.style.setProperty("--even", percent(count ? sample.status.active / count : 0));
}

function barOf(worker, isNewest) {
  const slot = slotOf(worker.worker);
  let bar = slot.querySelector(`.bar[data-key="${worker.key}"]`);
  if (!bar) {
    bar = html("i", { class: "bar", "data-key": worker.key, "data-pid": worker.pid });
    bar.style.height = "0%";
    slot.prepend(bar);
    bar.getBoundingClientRect(); // so that its growth from 0 is a transition
  }
  bar.classList.remove("leaving");
  bar.classList.toggle("old", !isNewest);
  return bar;
}

/** The worker has ended: its bar shrinks away. */
function dismiss(bar) {
  if (bar.classList.contains("leaving")) return;
  bar.classList.add("leaving");
  bar.style.height = "0%";
  setTimeout(() => bar.classList.contains("leaving") && bar.remove(), 600);
}

// ---- Figures and tables ----

function drawFigures(sample) {
  const { status } = sample;
  write($("active"), text(status.active));
  const phases = ["reading", "writing", "waiting"].map((name) => `${text(status[name])} ${name}`);
  write($("phases"), phases.join(", "));
  for (const name of SERVER) write($(name), text(status[name]));
  const count = sample.byIndex.size;
  const workers = `${count} ${count === 1 ? "worker" : "workers"}`;
  write($("facts"), `${location.host} · ${workers} · up ${duration(status.uptime_ms)}`);
  for (const plot of charts) plot.writeValues(sample);
}

const SERVER = ["restarts", "reloads", "kept", "lost", "listen_queue", "listen_overflows"];
const MOVES = ["arrived", "handed_over", "taken_back"];
const COUNTS = ["active", "reading", "writing", "waiting", "accepted", "handled", ...MOVES, "requests"];
const BYTES = ["received_bytes", "sent_bytes"];
const LOOP = ["turns", "events", "stale_events", "timers_armed", "timers_fired"];

function drawTable(sample) {
  const cell = (name, value) => html("td", { "data-field": name }, value);
  const counts = (of) => [
    ...COUNTS.map((name) => cell(name, text(of[name]))),
    ...BYTES.map((name) => cell(name, text(of[name], bytes))),
  ];
  const rows = sample.status.workers
    .toSorted((a, b) => a.worker - b.worker || a.uptime_ms - b.uptime_ms)
    .map((worker) => {
      const isOld = sample.byIndex.get(worker.worker) !== worker;
      const head = html("th", { scope: "row", class: `w${worker.worker % 8}` }, html("i"), `${worker.worker}`);
      const process = cell("pid", isOld ? `${worker.pid}, draining` : `${worker.pid}`);
      const numbers = [...counts(worker), ...LOOP.map((name) => cell(name, text(worker[name])))];
      const times = ["turn_us", "timer_lateness_us"].flatMap((name) =>
        QUANTILES.map((quantile) => cell(`${name}.${quantile}`, text(worker[name][quantile], microseconds))),
      );
      const up = cell("uptime_ms", text(worker.uptime_ms, duration));
      const memory = cell("memory_bytes", text(worker.memory_bytes, bytes));
      const row = html("tr", { "data-pid": worker.pid }, head, process, up, memory, ...numbers, ...times);
      row.classList.toggle("old", isOld);
      return row;
    });
  const sums = counts(sample.status);
  const name = html("th", { scope: "row", colspan: 4 }, "all, also those that ended");
  $("workers").tBodies[0].replaceChildren(...rows);
  $("workers").tFoot.replaceChildren(html("tr", {}, name, ...sums, html("td", { colspan: 11 })));
}

/** The time lines as a table, as they were when it was opened. */
function drawHistory() {
  const times = (of) => QUANTILES.map((quantile) => text(of?.[quantile], microseconds));
  const row = (sample) => [
    clock(sample.status.time_ms),
    text(sample.status.active),
    text(sample.requests, rate),
    text(sample.accepts, rate),
    text(sample.status.jain, jain),
    ...times(sample.turn),
    ...times(sample.lateness),
  ];
  const cells = (sample) => row(sample).map((value, at) => (at ? html("td", {}, value) : html("th", { scope: "row" }, value)));
  const rows = state.samples.toReversed().map((sample) => html("tr", {}, ...cells(sample)));
  $("history").querySelector("tbody").replaceChildren(...rows);
}

/** Adds new events at the top and removes those that are older than two minutes. */
function drawEvents() {
  const list = $("events");
  for (const event of state.events) {
    event.item ??= html("li", { class: event.kind }, html("time", {}, clock(event.ms)), html("span", {}, event.what));
    if (!event.item.isConnected) list.prepend(event.item);
  }
  const items = new Set(state.events.map((event) => event.item));
  for (const item of [...list.children]) if (!items.has(item)) item.remove();
}

function draw() {
  forget();
  const sample = state.samples.at(-1);
  if (!sample) return;
  connections.draw();
  for (const plot of charts) plot.draw();
  drawEvents();
  drawTable(sample);
  drawShown();
}

/** Draws the parts that depend on the shown time. */
function drawShown() {
  const sample = shown();
  if (!sample) return;
  const secondsAgo = Math.round((edge() - sample.at) / 1000);
  const isNow = (state.hoverAt ?? state.chosenAt) === null;
  write($("time-shown"), isNow ? "now" : `${secondsAgo} s ago`);
  $("time").value = String(state.chosenAt === null ? 0 : Math.round((state.chosenAt - edge()) / 1000));
  $("time").setAttribute("aria-valuetext", isNow ? "now" : `${secondsAgo} seconds ago, ${sample.status.active} connections`);
  drawFigures(sample);
  drawBars(sample);
  for (const plot of [connections, ...charts]) plot.drawCursor();
}

// ---- The time that is shown ----

function hoverAt(at) {
  state.hoverAt = at;
  drawShown();
}

$("time").addEventListener("input", (event) => {
  const secondsAgo = -Number(event.target.value);
  state.chosenAt = secondsAgo === 0 ? null : edge() - secondsAgo * 1000;
  drawShown();
});

$("history").addEventListener("toggle", (event) => event.target.open && drawHistory());

// ---- Asking the server ----

/** The event `gone` that has not ended, if the server is gone. */
const absence = () => state.events.findLast(({ kind, until }) => kind === "gone" && until === undefined);

function showState() {
  const gone = absence();
  let [name, words] = ["connecting", "Connecting"];
  if (state.pausedAt !== null) [name, words] = ["paused", "Paused"];
  else if (gone) [name, words] = ["gone", `Server gone since ${clock(gone.ms)}; trying each second`];
  else if (state.samples.length) [name, words] = ["live", "Live"];
  $("state").dataset.state = name;
  write($("state"), words);
  document.title = name === "gone" ? "Server gone: evcore httpd" : "evcore httpd";
}

async function ask() {
  state.isAsking = true;
  state.askedAt = performance.now();
  try {
    const options = { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) };
    // The first answer has what happened before the page was opened; its last element is now.
    const response = await fetch(state.samples.length ? "status.json" : "history.json", options);
    if (!response.ok) throw new Error(`status ${response.status}`);
    onAnswer([await response.json()].flat());
  } catch (error) {
    onFailure(error);
  }
  state.isAsking = false;
  showState();
  draw();
  schedule();
}

function onAnswer(moments) {
  const gone = absence();
  if (gone) {
    gone.until = performance.now();
    note("back", null, "the server answers again");
  }
  state.failures = 0;
  const now = moments.at(-1).time_ms;
  for (const status of moments) take(status, performance.now() - (now - status.time_ms));
}

/** A single failure other than a timeout may come from a worker that has just died, and is ignored. */
function onFailure(error) {
  state.failures += 1;
  if (state.failures === 1) state.failedAt = state.askedAt;
  const isLate = error.name === "TimeoutError";
  const isGone = isLate || state.failures > 1 || !state.samples.length;
  if (!isGone || absence()) return;
  note("gone", null, isLate ? "the server does not answer" : "the server is gone");
  state.events.at(-1).at = state.failedAt;
}

/** At most one request a second; none while the page is paused or hidden. */
function schedule() {
  clearTimeout(state.timer);
  if (state.isAsking || state.pausedAt !== null || document.hidden) return;
  const wait = state.askedAt + PERIOD_MS - performance.now();
  state.timer = setTimeout(ask, Math.max(0, wait));
}

$("pause").addEventListener("click", () => {
  const isPaused = state.pausedAt !== null;
  state.pausedAt = isPaused ? null : performance.now();
  write($("pause"), isPaused ? "Pause" : "Go on");
  showState();
  draw();
  schedule();
});
document.addEventListener("visibilitychange", schedule);
schedule();
