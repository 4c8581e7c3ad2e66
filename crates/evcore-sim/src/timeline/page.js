// Draws the data of this page. Spans, arrows and states refer to moments, by their indices.
"use strict";

// The heights of a lane and of the axis, in pixels. The style sheet has the same numbers.
const LANE = 26;
const TOP = 22;
const LINES = 15;
const SHAPES = { Fault: "▲", Step: "■", Report: "◆", Move: "●", Note: "✚", Other: "·" };
const SPANS = { Turn: "turn", Paused: "paused", Dead: "dead", Open: "open connection" };

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const [TIME, OF_LANE, KIND, TEXT] = [0, 1, 2, 3];
const moments = data.moments;
const last = Math.max(0, moments.length - 1);

const state = {
  cursor: last,
  /** True if distances are proportional to time, and not almost equal. */
  byTime: false,
  /** The visible part of the axis, as fractions of the whole. */
  from: 0,
  to: 1,
};

// ---- The axes ----

/** The place of each moment, from 0 to 1. */
function placesByTime() {
  const first = moments.length ? moments[0][TIME] : 0;
  const whole = moments.length ? moments[last][TIME] - first : 0;
  return moments.map((moment, index) => (whole ? (moment[TIME] - first) / whole : index / Math.max(1, last)));
}

/** The distance between two moments grows a little with the time between them. */
function placesByMoment() {
  let place = 0;
  const places = moments.map((moment, index) => {
    const gap = index ? moment[TIME] - moments[index - 1][TIME] : 0;
    return (place += index ? 1 + Math.log10(1 + gap) / 3 : 0);
  });
  return places.map((start) => (place ? start / place : 0));
}

const axes = { moments: placesByMoment(), time: placesByTime() };
const places = () => (state.byTime ? axes.time : axes.moments);

const seconds = (ns) => `${(ns / 1e9).toFixed(9)} s`;

/** The index of the first moment at a place or after it. */
function indexAt(place) {
  const all = places();
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle] < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

// ---- The picture ----

const canvas = $("canvas");
const colours = () => {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};

function draw() {
  const width = canvas.clientWidth;
  const height = TOP + data.lanes.length * LANE;
  const scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const colour = colours();
  const all = places();
  const x = (index) => 8 + ((all[index] - state.from) / (state.to - state.from)) * (width - 16);
  const y = (lane) => TOP + lane * LANE + LANE / 2;
  drawLanes(pen, width, colour);
  drawSpans(pen, x, y, width, colour);
  const [first, end] = [indexAt(state.from), indexAt(state.to)];
  drawTimes(pen, x, first, end, width, colour);
  drawArrows(pen, x, y, width, colour);
  drawMoments(pen, x, y, first, end, colour);
  if (!moments.length) return;
  pen.strokeStyle = colour("cursor");
  pen.lineWidth = 1.5;
  line(pen, x(state.cursor), TOP - 4, x(state.cursor), height);
  pen.strokeRect(x(state.cursor) - 6.5, y(moments[state.cursor][OF_LANE]) - 6.5, 13, 13);
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function drawLanes(pen, width, colour) {
  pen.strokeStyle = colour("rule");
  pen.lineWidth = 1;
  for (let lane = 0; lane <= data.lanes.length; lane++) {
    line(pen, 0, TOP + lane * LANE + 0.5, width, TOP + lane * LANE + 0.5);
  }
}

function drawSpans(pen, x, y, width, colour) {
  for (const [lane, first, end, kind] of data.spans) {
    const [left, right] = [x(first), x(end)];
    if (right < 0 || left > width) continue;
    pen.fillStyle = colour(data.spanKinds[kind].toLowerCase());
    const [begin, finish] = [Math.max(-9, left), Math.min(width + 9, right)];
    pen.fillRect(begin, y(lane) - 8, Math.max(1.5, finish - begin), 16);
  }
}

/** Writes the times of some moments, where there is room. */
function drawTimes(pen, x, first, end, width, colour) {
  pen.fillStyle = colour("soft");
  pen.font = "11px system-ui, sans-serif";
  let free = 0;
  for (let index = first; index < Math.min(end + 1, moments.length); index++) {
    const at = x(index);
    const text = `${Number((moments[index][TIME] / 1e9).toFixed(6))} s`;
    if (at < free || at + pen.measureText(text).width > width) continue;
    pen.fillText(text, at, 14);
    free = at + pen.measureText(text).width + 24;
  }
}

function drawArrows(pen, x, y, width, colour) {
  pen.lineWidth = 1;
  pen.strokeStyle = pen.fillStyle = colour("arrow");
  for (const [from, to] of data.arrows) {
    const [x1, x2] = [x(from), x(to)];
    if (x2 < 0 || x1 > width) continue;
    const [y1, y2] = [y(moments[from][OF_LANE]), y(moments[to][OF_LANE])];
    line(pen, x1, y1, x2, y2);
    const angle = Math.atan2(y2 - y1, x2 - x1);
    pen.beginPath();
    pen.moveTo(x2, y2);
    for (const side of [-0.4, 0.4]) {
      pen.lineTo(x2 - 9 * Math.cos(angle + side), y2 - 9 * Math.sin(angle + side));
    }
    pen.fill();
  }
}

function drawMoments(pen, x, y, first, end, colour) {
  const fills = data.kinds.map((kind) => colour(kind.toLowerCase()));
  for (let index = first; index < Math.min(end + 1, moments.length); index++) {
    const [, lane, kind] = moments[index];
    pen.fillStyle = fills[kind];
    shape(pen, data.kinds[kind], x(index), y(lane));
  }
}

/** Each kind has its own shape or size, so that colour is not the only difference. */
function shape(pen, kind, x, y) {
  const corners = {
    Fault: [[0, -6], [6, 5], [-6, 5]],
    Step: [[-3.5, -3.5], [3.5, -3.5], [3.5, 3.5], [-3.5, 3.5]],
    Report: [[0, -4.5], [4.5, 0], [0, 4.5], [-4.5, 0]],
    Note: [[-1.5, -5], [1.5, -5], [1.5, -1.5], [5, -1.5], [5, 1.5], [1.5, 1.5],
      [1.5, 5], [-1.5, 5], [-1.5, 1.5], [-5, 1.5], [-5, -1.5], [-1.5, -1.5]],
  }[kind];
  pen.beginPath();
  if (corners) for (const [dx, dy] of corners) pen.lineTo(x + dx, y + dy);
  else pen.arc(x, y, kind === "Move" ? 3.5 : 2, 0, 7);
  pen.fill();
}

// ---- The panels ----

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** The state of a row at the cursor: the text, and whether it begins there. */
function stateOf([, changes]) {
  let found = null;
  let [low, high] = [0, changes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[middle][0] <= state.cursor) {
      found = changes[middle];
      low = middle + 1;
    } else high = middle;
  }
  return found && { text: data.texts[found[1]], isNew: found[0] === state.cursor };
}

function showState() {
  const rows = data.rows.map((row) => [data.texts[row[0]], stateOf(row)]);
  const shown = rows.filter(([, row]) => row && row.text);
  $("state").replaceChildren(
    ...shown.map(([name, row]) =>
      element("tr", { className: row.isNew ? "is-new" : "" },
        element("th", { scope: "row", textContent: name }), element("td", { textContent: row.text }))),
  );
}

function showLines() {
  const first = Math.max(0, Math.min(state.cursor - (LINES >> 1), last - LINES + 1));
  const around = moments.slice(first, first + LINES);
  $("lines").replaceChildren(
    ...around.map((moment, offset) => {
      const time = element("time", { textContent: seconds(moment[TIME]) });
      const text = `${SHAPES[data.kinds[moment[KIND]]]} ${data.texts[moment[TEXT]]}`;
      const item = element("li", {}, time, element("span", { textContent: text }));
      if (first + offset === state.cursor) item.setAttribute("aria-current", "true");
      item.addEventListener("click", () => go(first + offset));
      return item;
    }),
  );
}

function show() {
  draw();
  showState();
  showLines();
  const moment = moments[state.cursor];
  const text = moment ? `${seconds(moment[TIME])}: ${data.texts[moment[TEXT]]}` : "Nothing happened.";
  $("at").textContent = text;
  canvas.setAttribute("aria-valuemin", "0");
  canvas.setAttribute("aria-valuemax", String(last));
  canvas.setAttribute("aria-valuenow", String(state.cursor));
  canvas.setAttribute("aria-valuetext", text);
  [...$("lanes").children].forEach((lane, index) =>
    lane.classList.toggle("is-current", Boolean(moment) && index === moment[OF_LANE]));
  $("axis").setAttribute("aria-pressed", String(state.byTime));
}

// ---- Moving ----

/** Moves the cursor. If the cursor leaves the visible part, that part follows. */
function go(index) {
  state.cursor = Math.max(0, Math.min(last, index));
  const place = places()[state.cursor] ?? 0;
  const width = state.to - state.from;
  if (place < state.from || place > state.to) look(place - width / 2, width);
  show();
}

function look(from, width) {
  const kept = Math.min(1, width);
  state.from = Math.max(0, Math.min(1 - kept, from));
  state.to = state.from + kept;
}

/** Shows a wider or narrower part around the cursor. */
function zoom(factor) {
  const place = places()[state.cursor] ?? 0;
  const width = Math.max(1e-6, Math.min(1, (state.to - state.from) * factor));
  look(place - width / 2, width);
  show();
}

/** The index of the next wanted moment in a direction, or the cursor if there is none. */
function next(direction, isWanted) {
  for (let index = state.cursor + direction; index >= 0 && index <= last; index += direction) {
    if (isWanted(moments[index])) return index;
  }
  return state.cursor;
}

const isFault = (moment) => data.kinds[moment[KIND]] === "Fault";
const isOfLane = (moment) => moment[OF_LANE] === moments[state.cursor][OF_LANE];
const toFault = (direction) => go(next(direction, isFault));

function swapAxis() {
  state.byTime = !state.byTime;
  look(0, 1);
  show();
}

const KEYS = {
  ArrowLeft: (shift) => go(shift ? next(-1, isOfLane) : state.cursor - 1),
  ArrowRight: (shift) => go(shift ? next(1, isOfLane) : state.cursor + 1),
  Home: () => go(0),
  End: () => go(last),
  f: (shift) => toFault(shift ? -1 : 1),
  a: swapAxis,
  "+": () => zoom(0.5),
  "=": () => zoom(0.5),
  "-": () => zoom(2),
};

document.addEventListener("keydown", (event) => {
  if (event.target === $("find") || event.ctrlKey || event.altKey || event.metaKey) return;
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action(event.shiftKey);
});

/** The index of the moment nearest to a point. Moments on the lane of the point are preferred. */
function momentAt(event) {
  const box = canvas.getBoundingClientRect();
  const share = (event.clientX - box.left - 8) / (box.width - 16);
  const place = state.from + share * (state.to - state.from);
  const lane = Math.floor((event.clientY - box.top - TOP) / LANE);
  const all = places();
  const middle = Math.min(last, indexAt(place));
  const near = Array.from({ length: 401 }, (_, index) => middle - 200 + index);
  const cost = (index) => {
    const pixels = (Math.abs(all[index] - place) / (state.to - state.from)) * (box.width - 16);
    return pixels + (moments[index][OF_LANE] === lane ? 0 : 12);
  };
  return near.filter((index) => index >= 0 && index <= last)
    .reduce((best, index) => (cost(index) < cost(best) ? index : best), middle);
}

canvas.addEventListener("click", (event) => go(momentAt(event)));
canvas.addEventListener("wheel", (event) => {
  const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
  if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8);
  else if (sideways) {
    look(state.from + (sideways / canvas.clientWidth) * (state.to - state.from), state.to - state.from);
    draw();
  } else return;
  event.preventDefault();
}, { passive: false });

$("axis").addEventListener("click", swapAxis);
$("in").addEventListener("click", () => zoom(0.5));
$("out").addEventListener("click", () => zoom(2));
$("fault-before").addEventListener("click", () => toFault(-1));
$("fault-after").addEventListener("click", () => toFault(1));
$("find").addEventListener("change", () => {
  const wanted = $("find").value;
  if (wanted) go(next(1, (moment) => data.texts[moment[TEXT]].includes(wanted)));
});

// ---- The beginning ----

document.title = $("title").textContent = data.title;
$("summary").textContent = data.summary;
$("summary-box").hidden = !data.summary;
$("lanes").append(...data.lanes.map((name) => element("li", { textContent: name, title: name })));
$("legend").append(
  ...data.kinds.map((kind) => {
    const mark = element("span", { textContent: SHAPES[kind] });
    mark.style.color = `var(--${kind.toLowerCase()})`;
    return element("li", {}, mark, kind.toLowerCase());
  }),
  ...data.spanKinds.map((kind) => {
    const mark = element("span", { textContent: "\u00a0\u00a0" });
    mark.style.background = `var(--${kind.toLowerCase()})`;
    return element("li", {}, mark, SPANS[kind]);
  }),
);
new ResizeObserver(draw).observe($("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
show();
