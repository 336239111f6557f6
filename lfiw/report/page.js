(() => {
  const { escape, known, mean, deviation, precise, swatch, linePanel, forestPanel, redraw } = charts;
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = { hidden: new Set(), seeds: new Set(), window: 1 }; // strategies, seeds, points of a running mean
  const visible = (items) => items.filter((item) => !state.hidden.has(item.strategy));

  // --- the data as series
  const stepsName = (step) => `${step.toLocaleString("en")} environment steps`;
  const spreadText = (one, index) =>
    precise(one.ys[index]) + (one.highs[index] === null ? "" : ` ± ${precise(one.highs[index] - one.ys[index])}`);
  const smoothed = (row) => row.map((value, index) => {
    const reach = (state.window - 1) / 2;
    return value === null ? null : mean(known(row.slice(Math.max(0, index - reach), index + reach + 1)));
  });
  function seedSeries(method, rows) {
    const columns = method.steps.map((_, index) => known(rows.map((row) => row[index])));
    const ys = columns.map((column) => (column.length ? mean(column) : null));
    const spreads = columns.map((column) => deviation(column));
    const shown = method.seeds.map((seed, index) => [seed, rows[index]]).filter(([seed]) => state.seeds.has(seed));
    return {
      title: method.title, strategy: method.strategy, look: data.looks[method.strategy],
      xs: method.steps, ys,
      lows: ys.map((value, index) => (spreads[index] === null ? null : value - spreads[index])),
      highs: ys.map((value, index) => (spreads[index] === null ? null : value + spreads[index])),
      seeds: Object.fromEntries(shown),
    };
  }
  const groupBy = (items, key) => {
    const groups = new Map();
    items.forEach((item) => groups.set(key(item), [...(groups.get(key(item)) || []), item]));
    return groups;
  };

  function taskPanels(task, parent) {
    const agents = groupBy(task.methods, (method) => method.agent);
    const axis = { fromZero: true, xLabel: "environment steps", xName: stepsName, value: spreadText };
    for (const [agent, methods] of agents) {
      const series = () => visible(methods).map((method) => seedSeries(method, method.returns.map(smoothed)));
      linePanel(parent, { ...axis, title: `${[task.name, agent.toUpperCase()].filter(Boolean).join(", ")}: return`, series });
    }
    for (const { name, title, log, limits, reference } of data.diagnostics) {
      for (const [agent, methods] of agents) {
        const having = methods.filter((method) => method.diagnostics[name]);
        if (!having.length) continue;
        const series = () => visible(having).map((method) => seedSeries(method, method.diagnostics[name]));
        const heading = `${agent.toUpperCase()}: ${title}${log ? " (log scale)" : ""}`;
        linePanel(parent, { ...axis, log, range: limits, reference, title: heading, series });
      }
    }
    for (const method of task.methods.filter((one) => one.ages.length)) {
      const series = () => visible([method]).flatMap(() => method.ages).map((ys, index) => (
        { title: data.ages[index].title, strategy: method.strategy, look: data.ages[index], xs: method.steps, ys }
      ));
      const keys = data.ages.map((look) => `<span>${swatch(look)}${look.title}</span>`).join("");
      linePanel(parent, { ...axis, value: null, keys, series, reference: 1, title: `${method.title}: mean weight by age` });
    }
  }
  function glancePanels() {
    const forests = document.getElementById("forests");
    const percent = (value) => `${Math.round(value * 100)} %`;
    const compared = data.aggregates.filter((one) => one.improvement);
    if (compared.length) {
      forestPanel(forests, {
        title: `Probability of ending above ${data.base}`, range: [0, 1], reference: 0.5, form: percent,
        note: `Against ${data.base}${data.own_agent}; 95 % intervals where there are several runs. Dashed: a tie.`,
        rows: compared.map((one) => ({ title: one.title, look: data.looks[one.strategy], interval: one.improvement })),
      });
    }
    if (data.aggregates.length) {
      forestPanel(forests, {
        title: "Score, interquartile mean", reference: 1, form: (value) => value.toFixed(2),
        note: `Final return, where ${data.base} starts at 0 and ends at 1; 95 % intervals where there are several runs.`,
        rows: data.aggregates.map((one) => ({ title: one.title, look: data.looks[one.strategy], interval: one.iqm })),
      });
    }
    for (const [agent, group] of groupBy(data.aggregates, (one) => one.agent)) {
      const series = () => visible(group).map((one) => {
        const [ys, lows, highs] = one.profile;
        const look = { ...data.looks[one.strategy], marker: "" };
        return { title: one.title, strategy: one.strategy, look, xs: data.thresholds, ys, lows, highs };
      });
      linePanel(document.getElementById("profiles"), {
        title: `${agent ? `${agent.toUpperCase()}: p` : "P"}erformance profile, share of runs above a score`,
        range: [0, 1], series, xLabel: "score", xName: (score) => `score above ${precise(score)}`,
        value: (one, index) => percent(one.ys[index]),
        keys: group.map((one) => `<span>${swatch({ ...data.looks[one.strategy], marker: "" })}${escape(one.title)}</span>`).join(""),
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
    for (const name of Object.keys(data.looks)) {
      const node = button(parent, `${swatch(data.looks[name])}${escape(data.looks[name].title)}`, { "aria-pressed": true, "data-strategy": name }, () => {
        flip(state.hidden, name);
        node.setAttribute("aria-pressed", !state.hidden.has(name));
        redraw();
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
      redraw();
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
  function smoothing() {
    const parent = document.getElementById("smoothing");
    parent.innerHTML = "<span>Running mean</span>";
    for (const window of [1, 5, 9]) {
      const name = window === 1 ? "off" : `${window} points`;
      button(parent, name, { "aria-pressed": window === state.window, "data-window": window }, (event) => {
        state.window = window;
        parent.querySelectorAll("button").forEach((node) => node.setAttribute("aria-pressed", node === event.currentTarget));
        redraw();
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
  smoothing();
  glancePanels();
  data.tasks.forEach((task, index) => taskPanels(task, document.querySelector(`#task-${index} .charts`)));
  redraw();
})();
