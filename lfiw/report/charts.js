"use strict";
// Panels of lines and of intervals as inline SVG. They know nothing of the report.
const charts = (() => {
  // --- numbers and text
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const isNumber = (value) => value !== null && Number.isFinite(value);
  const known = (values) => values.filter(isNumber);
  const extent = (values) =>
    values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = (values) => {  // the sample's; of a single value there is none
    if (values.length < 2) return null;
    const centre = mean(values);
    const squares = values.map((value) => (value - centre) ** 2);
    return Math.sqrt((mean(squares) * values.length) / (values.length - 1));
  };
  const precise = (value) =>
    Math.abs(value) >= 100
      ? Math.round(value).toLocaleString("en")
      : Number(value.toPrecision(3)).toString();
  const short = (value) => {
    const size = Math.abs(value);
    const [unit, name] = size >= 1e6 ? [1e6, "M"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
    return `${Number((value / unit).toPrecision(4))}${name}`;
  };

  // --- scales: { to(value), ticks }
  function linear(low, high, start, end, count) {
    if (!(low < high)) [low, high] = [low - 1, high + 1];
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const ticks = [];
    for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9; index++) {
      ticks.push(Number((index * step).toPrecision(12)));
    }
    return { to: (value) => start + ((value - low) / (high - low)) * (end - start), ticks };
  }
  function logarithmic(low, high, start, end) {
    const [from, until] = [Math.log10(low), Math.log10(high)];
    const inside = (value) => value >= low * 0.999 && value <= high * 1.001;
    const all = [];
    for (let power = Math.floor(from); power <= until; power++) {
      all.push(...[1, 2, 5].map((factor) => Number((factor * 10 ** power).toPrecision(3))));
    }
    const to = (value) => start + ((Math.log10(value) - from) / (until - from)) * (end - start);
    return { to, ticks: all.filter(inside) };
  }

  // --- marks
  const MARKERS = {
    circle: "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
    square: "M-3.2 -3.2h6.4v6.4h-6.4z",
    triangle: "M0 -4.2L4 3H-4z",
    diamond: "M0 -4.5L4 0L0 4.5L-4 0z",
    cross: "M-4 -1.3h2.7v-2.7h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7z",
  };
  const ink = (look) => (look.colour === "#000000" ? "currentColor" : look.colour);
  const marker = (look, x, y) =>
    look.marker && `<path d="${MARKERS[look.marker]}" transform="translate(${x} ${y})" fill="${ink(look)}"/>`;
  const swatch = (look) =>
    `<svg width="30" height="12" aria-hidden="true"><path d="M1 6H29" stroke="${ink(look)}"
      stroke-width="2.2" stroke-dasharray="${look.dash}"/>${marker(look, 15, 6)}</svg>`;
  function path(xs, ys, x, y) {
    let pen = "M";
    let commands = "";
    xs.forEach((value, index) => {
      if (!isNumber(ys[index])) {
        pen = "M";
        return;
      }
      commands += `${pen}${x.to(value).toFixed(1)} ${y.to(ys[index]).toFixed(1)}`;
      pen = "L";
    });
    return commands;
  }
  function band(xs, lows, highs, x, y) {
    const kept = xs.map((_, index) => index).filter((i) => isNumber(lows[i]) && isNumber(highs[i]));
    const point = (values) => (i) => `${x.to(xs[i]).toFixed(1)} ${y.to(values[i]).toFixed(1)}`;
    const there = kept.map(point(highs));
    const back = kept.reverse().map(point(lows));
    return there.length ? `M${there.join("L")}L${back.join("L")}z` : "";
  }

  // --- drawing: by `redraw`, and by itself when the width changes
  const panels = []; // each { node, draw(width) }
  const DEFAULT_WIDTH = 560; // for panels that are not on the screen; print scales them
  const drawOne = (chart) => {
    const width = chart.node.querySelector(".plot").clientWidth;
    chart.draw(width || DEFAULT_WIDTH);
  };
  const redraw = () => panels.forEach(drawOne);
  const observer = new ResizeObserver((entries) =>
    entries.forEach(({ target, contentRect }) => {
      const chart = panels.find((one) => one.node === target);
      if (contentRect.width && chart.width !== contentRect.width) {
        chart.width = contentRect.width;
        drawOne(chart);
      }
    }),
  );
  function register(chart) {
    panels.push(chart);
    observer.observe(chart.node);
  }

  // --- a panel with lines
  // spec: title, keys, xLabel, xName(x), value(series, index), range, log, reference, fromZero,
  // and series() -> [{ title, strategy, look, xs, ys, lows, highs, seeds: {seed: ys} }]
  function linePanel(parent, spec) {
    const node = document.createElement("div");
    node.className = "chart";
    node.innerHTML = `<h4>${escape(spec.title)}</h4><div class="plot"></div>
      <p class="keys">${spec.keys || ""}</p><div class="readout" hidden></div>`;
    parent.append(node);
    const plot = node.querySelector(".plot");
    const readout = node.querySelector(".readout");
    let drawn = null;

    function draw(width) {
      const height = Math.round(Math.min(340, Math.max(230, width * 0.62)));
      const box = { left: 52, right: width - 12, top: 10, bottom: height - 38 };
      const series = spec.series();
      const values = series.flatMap((one) =>
        known([...one.ys, ...(one.lows || []), ...(one.highs || []), ...Object.values(one.seeds || {}).flat()]),
      );
      const positive = spec.log ? values.filter((value) => value > 0) : values;
      const xs = series.flatMap((one) => one.xs);
      if (!positive.length) {
        plot.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="nothing shown">
          <text x="${width / 2}" y="${height / 2}" text-anchor="middle">nothing shown</text></svg>`;
        drawn = null;
        return;
      }
      let [low, high] = spec.range || extent(positive);
      if (spec.log) [low, high] = [Math.min(low, 0.5) * 0.9, Math.max(high, 1)];
      else if (!spec.range) [low, high] = [low - (high - low) * 0.03, high + (high - low) * 0.03];
      const [first, last] = extent(spec.fromZero ? [0, ...xs] : xs);
      const x = linear(first, last, box.left, box.right, width < 420 ? 4 : 6);
      const y = (spec.log ? logarithmic : linear)(low, high, box.bottom, box.top, 5);
      let marks = y.ticks.map((tick) => {
        const at = y.to(tick).toFixed(1);
        return `<path class="grid" d="M${box.left} ${at}H${box.right}"/>
          <text x="${box.left - 6}" y="${Number(at) + 4}" text-anchor="end">${short(tick)}</text>`;
      }).join("");
      marks += x.ticks.map((tick) =>
        `<text x="${x.to(tick).toFixed(1)}" y="${box.bottom + 17}" text-anchor="middle">${short(tick)}</text>`,
      ).join("");
      marks += `<text x="${(box.left + box.right) / 2}" y="${height - 4}" text-anchor="middle">${escape(spec.xLabel)}</text>`;
      if (spec.reference != null && y.to(spec.reference) <= box.bottom) {
        marks += `<path class="reference" d="M${box.left} ${y.to(spec.reference).toFixed(1)}H${box.right}"/>`;
      }
      const floor = (ys) => (spec.log && ys ? ys.map((value) => (value > 0 ? Math.max(value, low) : null)) : ys);
      for (const one of series) {
        const colour = ink(one.look);
        const tag = `data-strategy="${escape(one.strategy)}"`;
        if (one.lows) marks += `<path class="band" ${tag} fill="${colour}" d="${band(one.xs, floor(one.lows), floor(one.highs), x, y)}"/>`;
        for (const [seed, ys] of Object.entries(one.seeds || {})) {
          marks += `<path class="seed" ${tag} data-seed="${seed}" stroke="${colour}" d="${path(one.xs, floor(ys), x, y)}"/>`;
        }
        marks += `<path class="curve" ${tag} stroke="${colour}" stroke-dasharray="${one.look.dash}" d="${path(one.xs, floor(one.ys), x, y)}"/>`;
        const every = Math.max(1, Math.round(one.xs.length / 6));
        for (let i = one.xs.length - 1; i >= 0; i -= every) {
          const at = floor(one.ys)[i];
          if (isNumber(at)) marks += marker(one.look, x.to(one.xs[i]).toFixed(1), y.to(at).toFixed(1));
        }
      }
      plot.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img"
        aria-label="${escape(`${spec.title}: ${series.map((one) => one.title).join(", ")}`)}">
        ${marks}<path class="cursor" d="" visibility="hidden"/></svg>`;
      drawn = { box, x, series, width, steps: [...new Set(xs)].sort((a, b) => a - b) };
    }

    function point(event) {
      if (!drawn) return;
      const svg = plot.firstElementChild;
      const frame = svg.getBoundingClientRect();
      const at = ((event.clientX - frame.left) / frame.width) * drawn.width;
      const distance = (step) => Math.abs(drawn.x.to(step) - at);
      const step = drawn.steps.reduce((best, next) => (distance(next) < distance(best) ? next : best));
      const rows = drawn.series.map((one) => {
        const index = one.xs.findLastIndex((at) => at <= step); // others may be evaluated more often
        if (index < 0 || step > one.xs.at(-1) || !isNumber(one.ys[index])) return "";
        const value = spec.value ? spec.value(one, index) : precise(one.ys[index]);
        return `<tr><td>${swatch(one.look)}</td><td>${escape(one.title)}</td><td>${value}</td></tr>`;
      }).join("");
      const cursor = svg.querySelector(".cursor");
      cursor.setAttribute("d", `M${drawn.x.to(step)} ${drawn.box.top}V${drawn.box.bottom}`);
      cursor.setAttribute("visibility", "visible");
      readout.innerHTML = `<strong>${escape(spec.xName(step))}</strong><table>${rows}</table>`;
      readout.hidden = false;
      const left = event.clientX - node.getBoundingClientRect().left;
      const room = node.clientWidth - readout.offsetWidth - 8;
      const beside = left > node.clientWidth / 2 ? left - readout.offsetWidth - 14 : left + 14;
      readout.style.left = `${Math.max(8, Math.min(room, beside))}px`;
      readout.style.top = "2.4rem";
    }
    function leave() {
      readout.hidden = true;
      plot.querySelector(".cursor")?.setAttribute("visibility", "hidden");
    }
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointercancel", leave);
    // A lifted finger leaves the read-out open; a touch elsewhere closes it.
    plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    document.addEventListener("pointerdown", (event) => plot.contains(event.target) || leave());
    register({ node, draw });
  }

  // Cut in the middle: the beginning and the end tell methods apart.
  function shortened(title, most) {
    if (title.length <= most) return title;
    const kept = Math.floor((most - 1) / 2);
    return `${title.slice(0, most - 1 - kept)}…${title.slice(title.length - kept)}`;
  }

  // --- a panel with one interval per method
  // spec: title, note, range, reference, form(value), rows: [{ title, look, interval }]
  function forestPanel(parent, spec) {
    const node = document.createElement("div");
    node.className = "chart";
    node.innerHTML = `<h4>${escape(spec.title)}</h4><div class="plot"></div><p>${escape(spec.note)}</p>`;
    parent.append(node);
    function draw(width) {
      const height = spec.rows.length * 30 + 34;
      const names = Math.min(width * 0.46, 20 + 8 * Math.max(...spec.rows.map((row) => row.title.length)));
      const ends = known(spec.rows.flatMap((row) => row.interval)).concat(spec.reference);
      const [low, high] = spec.range || extent(ends);
      const x = linear(low, high, names + 10, width - 52, width < 420 ? 3 : 5);
      let marks = x.ticks.map((tick) =>
        `<path class="grid" d="M${x.to(tick)} 4V${height - 26}"/>
         <text x="${x.to(tick)}" y="${height - 8}" text-anchor="middle">${precise(tick)}</text>`,
      ).join("");
      marks += `<path class="reference" d="M${x.to(spec.reference)} 4V${height - 26}"/>`;
      spec.rows.forEach((row, index) => {
        const [value, from, until] = row.interval;
        const [at, look] = [index * 30 + 20, row.look];
        const label = shortened(row.title, Math.floor(names / 8));
        marks += `<text class="name" x="${names}" y="${at + 4}" text-anchor="end">${escape(label)}</text>
          ${isNumber(from) ? `<path class="whisker" stroke="${ink(look)}" d="M${x.to(from)} ${at}H${x.to(until)}"/>` : ""}
          <g transform="translate(${x.to(value)} ${at}) scale(1.5)">${marker(look, 0, 0)}</g>
          <text x="${width - 6}" y="${at + 4}" text-anchor="end">${spec.form(value)}</text>`;
      });
      node.querySelector(".plot").innerHTML =
        `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(spec.title)}">${marks}</svg>`;
    }
    register({ node, draw });
  }

  return { escape, known, mean, deviation, precise, swatch, linePanel, forestPanel, redraw };
})();
