"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const strategies = Object.keys(data.looks);
  const state = { task: 0, hidden: new Set(), seeds: new Set() };
  const charts = []; // each { node, draw(width) }, drawn again whenever the state changes

  // --- numbers and text
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const isNumber = (value) => value !== null && Number.isFinite(value);
  const known = (values) => values.filter(isNumber);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = (values) => {
    const centre = mean(values);
    return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)));
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
    if (low === high) [low, high] = [low - 1, high + 1];
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
    `<path d="${MARKERS[look.marker]}" transform="translate(${x} ${y})" fill="${ink(look)}"/>`;
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

  // --- a panel with lines: series are { title, look, xs, ys, lows, highs, seeds: {seed: ys} }
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
      const series = spec.series().filter((one) => !state.hidden.has(one.strategy));
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
      let [low, high] = spec.range || [Math.min(...positive), Math.max(...positive)];
      if (spec.log) [low, high] = [Math.min(low, 0.5) * 0.9, Math.max(high, 1)];
      else if (!spec.range) [low, high] = [low - (high - low) * 0.03, high + (high - low) * 0.03];
      const x = linear(Math.min(0, ...xs), Math.max(...xs), box.left, box.right, width < 420 ? 4 : 6);
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
      if (spec.reference !== undefined && y.to(spec.reference) <= box.bottom) {
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
        if (one.look.marker) {
          const every = Math.max(1, Math.round(one.xs.length / 6));
          for (let i = one.xs.length - 1; i >= 0; i -= every) {
            const at = floor(one.ys)[i];
            if (isNumber(at)) marks += marker(one.look, x.to(one.xs[i]).toFixed(1), y.to(at).toFixed(1));
          }
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
        const index = one.xs.indexOf(step);
        if (index < 0 || !isNumber(one.ys[index])) return "";
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
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("pointercancel", leave);
    register({ node, draw });
  }

  // --- a panel with one interval per method
  function forestPanel(parent, spec) {
    const node = document.createElement("div");
    node.className = "chart";
    node.innerHTML = `<h4>${escape(spec.title)}</h4><div class="plot"></div><p>${escape(spec.note)}</p>`;
    parent.append(node);
    function draw(width) {
      const height = spec.rows.length * 30 + 34;
      const names = Math.min(width * 0.42, 20 + 8 * Math.max(...spec.rows.map((row) => row.title.length)));
      const ends = spec.rows.flatMap((row) => row.interval).concat(spec.reference);
      const [low, high] = spec.range || [Math.min(...ends), Math.max(...ends)];
      const x = linear(low, high, names + 10, width - 52, width < 420 ? 3 : 5);
      let marks = x.ticks.map((tick) =>
        `<path class="grid" d="M${x.to(tick)} 4V${height - 26}"/>
         <text x="${x.to(tick)}" y="${height - 8}" text-anchor="middle">${precise(tick)}</text>`,
      ).join("");
      marks += `<path class="reference" d="M${x.to(spec.reference)} 4V${height - 26}"/>`;
      spec.rows.forEach((row, index) => {
        const [value, from, until] = row.interval;
        const [at, look] = [index * 30 + 20, data.looks[row.strategy]];
        const label = row.title.length * 8 > names ? `${row.title.slice(0, Math.floor(names / 8))}…` : row.title;
        marks += `<text class="name" x="${names}" y="${at + 4}" text-anchor="end">${escape(label)}</text>
          <path class="whisker" stroke="${ink(look)}" d="M${x.to(from)} ${at}H${x.to(until)}"/>
          <g transform="translate(${x.to(value)} ${at}) scale(1.5)">${marker(look, 0, 0)}</g>
          <text x="${width - 6}" y="${at + 4}" text-anchor="end">${spec.form(value)}</text>`;
      });
      node.querySelector(".plot").innerHTML =
        `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(spec.title)}">${marks}</svg>`;
    }
    register({ node, draw });
  }

  // --- drawing: again when the state or the width changes
  const DEFAULT_WIDTH = 560; // for panels that are not on the screen; print scales them
  const drawOne = (chart) => {
    const width = chart.node.querySelector(".plot").clientWidth;
    chart.draw(width || DEFAULT_WIDTH);
  };
  const drawAll = () => charts.forEach(drawOne);
  const observer = new ResizeObserver((entries) =>
    entries.forEach(({ target, contentRect }) => {
      const chart = charts.find((one) => one.node === target);
      if (contentRect.width && chart.width !== contentRect.width) {
        chart.width = contentRect.width;
        drawOne(chart);
      }
    }),
  );
  function register(chart) {
    charts.push(chart);
    observer.observe(chart.node);
  }

  // --- the data as series
  const stepsName = (step) => `${step.toLocaleString("en")} environment steps`;
  const spreadText = (one, index) => `${precise(one.ys[index])} ± ${precise(one.highs[index] - one.ys[index])}`;
  function seedSeries(method, rows) {
    const columns = method.steps.map((_, index) => known(rows.map((row) => row[index])));
    const ys = columns.map((column) => (column.length ? mean(column) : null));
    const spreads = columns.map((column) => (column.length ? deviation(column) : null));
    const shown = method.seeds.map((seed, index) => [seed, rows[index]]).filter(([seed]) => state.seeds.has(seed));
    return {
      title: method.title, strategy: method.strategy, look: data.looks[method.strategy],
      xs: method.steps, ys,
      lows: ys.map((value, index) => (value === null ? null : value - spreads[index])),
      highs: ys.map((value, index) => (value === null ? null : value + spreads[index])),
      seeds: Object.fromEntries(shown),
    };
  }
  const AGES = ["newest fifth", "second", "third", "fourth", "oldest fifth"];
  const AGE_LOOKS = ["#08306b", "#2171b5", "#4f9bd0", "#8a6d3b", "#d55e00"].map((colour, index) => (
    { colour, dash: ["", "9 3", "6 3", "3 3", "1 3"][index] }
  ));
  const ageSwatch = (look) =>
    `<svg width="26" height="10" aria-hidden="true"><path d="M1 5H25" stroke="${look.colour}" stroke-width="2.2" stroke-dasharray="${look.dash}"/></svg>`;
  const groupBy = (items, key) => {
    const groups = new Map();
    items.forEach((item) => groups.set(key(item), [...(groups.get(key(item)) || []), item]));
    return groups;
  };

  const DIAGNOSTICS = [
    { name: "effective_sample_size", title: "effective sample size (log scale)", log: true, reference: 1 },
    { name: "balanced_accuracy", title: "balanced accuracy of the ratio network", range: [0.4, 1], reference: 0.5 },
  ];
  function taskPanels(task, parent) {
    const agents = groupBy(task.methods, (method) => method.agent);
    const axis = { xLabel: "environment steps", xName: stepsName, value: spreadText };
    for (const [agent, methods] of agents) {
      const series = () => methods.map((method) => seedSeries(method, method.returns));
      linePanel(parent, { ...axis, title: `${task.name}, ${agent.toUpperCase()}: return`, series });
    }
    for (const { name, title, ...rest } of DIAGNOSTICS) {
      for (const [agent, methods] of agents) {
        const having = methods.filter((method) => method.diagnostics[name]);
        if (!having.length) continue;
        const series = () => having.map((method) => seedSeries(method, method.diagnostics[name]));
        linePanel(parent, { ...axis, ...rest, title: `${agent.toUpperCase()}: ${title}`, series });
      }
    }
    for (const method of task.methods.filter((one) => one.ages.length)) {
      const series = () => method.ages.map((ys, index) => (
        { title: AGES[index], strategy: method.strategy, look: AGE_LOOKS[index], xs: method.steps, ys }
      ));
      const keys = AGES.map((age, index) => `<span>${ageSwatch(AGE_LOOKS[index])} ${age}</span>`).join("");
      linePanel(parent, { ...axis, value: null, keys, series, reference: 1, title: `${method.title}: mean weight by age` });
    }
  }
  function glancePanels() {
    const forests = document.getElementById("forests");
    const percent = (value) => `${Math.round(value * 100)} %`;
    const compared = data.aggregates.filter((one) => one.improvement);
    if (compared.length) {
      forestPanel(forests, {
        title: "Probability of ending above uniform replay", range: [0, 1], reference: 0.5, form: percent,
        note: "Against uniform replay with the same agent; 95 % intervals. Dashed: a tie.",
        rows: compared.map((one) => ({ ...one, interval: one.improvement })),
      });
    }
    if (data.aggregates.length) {
      forestPanel(forests, {
        title: "Score, interquartile mean", reference: 1, form: (value) => value.toFixed(2),
        note: "Final return, where uniform replay starts at 0 and ends at 1; 95 % intervals.",
        rows: data.aggregates.map((one) => ({ ...one, interval: one.iqm })),
      });
    }
    for (const [agent, group] of groupBy(data.aggregates, (one) => one.agent)) {
      const series = () => group.map((one) => {
        const [ys, lows, highs] = one.profile;
        const look = { ...data.looks[one.strategy], marker: "" };
        return { title: one.title, strategy: one.strategy, look, xs: data.thresholds, ys, lows, highs };
      });
      linePanel(document.getElementById("profiles"), {
        title: `${agent.toUpperCase()}: performance profile, share of runs above a score`,
        range: [0, 1], series, xLabel: "score", xName: (score) => `score above ${precise(score)}`,
        value: (one, index) => percent(one.ys[index]),
        keys: group.map((one) => `<span>${swatch({ ...data.looks[one.strategy], marker: "circle", colour: data.looks[one.strategy].colour })} ${escape(one.title)}</span>`).join(""),
      });
    }
  }

  // --- controls
  function button(parent, content, attributes, onClick) {
    const node = document.createElement("button");
    node.type = "button";
    node.innerHTML = content;
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.addEventListener("click", onClick);
    parent.append(node);
    return node;
  }
  const flip = (set, value) => (set.has(value) ? set.delete(value) : set.add(value));
  function legend() {
    const parent = document.getElementById("legend");
    parent.innerHTML = "<span>Methods</span>";
    for (const name of strategies) {
      const node = button(parent, `${swatch(data.looks[name])}${escape(name)}`, { "aria-pressed": true, "data-strategy": name }, () => {
        flip(state.hidden, name);
        node.setAttribute("aria-pressed", !state.hidden.has(name));
        drawAll();
      });
    }
  }
  function seedToggles() {
    const parent = document.getElementById("seeds");
    parent.innerHTML = "<span>Single seeds</span>";
    const refresh = () => {
      parent.querySelectorAll("[data-seed]").forEach((node) =>
        node.setAttribute("aria-pressed", state.seeds.has(Number(node.dataset.seed))));
      everything.setAttribute("aria-pressed", state.seeds.size === data.seeds.length);
      drawAll();
    };
    const everything = button(parent, "all", { "aria-pressed": false }, () => {
      state.seeds = new Set(state.seeds.size === data.seeds.length ? [] : data.seeds);
      refresh();
    });
    for (const seed of data.seeds) {
      button(parent, seed, { "aria-pressed": false, "data-seed": seed, "aria-label": `seed ${seed}` }, () => {
        flip(state.seeds, seed);
        refresh();
      });
    }
  }
  function tabs() {
    const parent = document.getElementById("tabs");
    const articles = [...document.querySelectorAll(".task")];
    const choose = (index) => {
      articles.forEach((article, other) => article.classList.toggle("chosen", other === index));
      [...parent.children].forEach((tab, other) => tab.setAttribute("aria-selected", other === index));
    };
    data.tasks.forEach((task, index) =>
      button(parent, escape(task.name), { role: "tab", "aria-controls": `task-${index}` }, () => choose(index)));
    choose(0);
  }

  document.documentElement.classList.add("script");
  tabs();
  legend();
  seedToggles();
  glancePanels();
  data.tasks.forEach((task, index) => taskPanels(task, document.querySelector(`#task-${index} .charts`)));
  drawAll();
})();
