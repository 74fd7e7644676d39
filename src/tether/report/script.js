"use strict";
// The page is complete without this script. It adds a switch for the theme, a way to select a round,
// and points that can be read with a pointer or with the arrow keys.
(() => {
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const announcement = $("#announcement");

  const theme = $("#theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const storedTheme = (value) => {
    try {
      if (value) localStorage.setItem("tether-theme", value);
      return localStorage.getItem("tether-theme");
    } catch { return null; }
  };
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  if (storedTheme()) document.documentElement.dataset.theme = storedTheme();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    storedTheme(document.documentElement.dataset.theme);
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  theme.hidden = false;
  showTheme();

  const select = $("#round");
  const selectRound = (round) => {
    select.value = round;
    for (const node of all("#one-round [data-round]")) {
      const selected = node.dataset.round === String(round);
      if (node instanceof SVGElement) node.classList.toggle("selected", selected);
      else node.hidden = !selected;
    }
    $("#later").disabled = select.selectedIndex === 0;
    $("#earlier").disabled = select.selectedIndex === select.options.length - 1;
  };
  if (select) {
    $(".round-picker").hidden = false;
    select.addEventListener("change", () => selectRound(select.value));
    const step = (by) => () => {
      selectRound(select.options[select.selectedIndex + by].value);
      announcement.textContent = select.selectedOptions[0].textContent;
    };
    $("#earlier").addEventListener("click", step(1));
    $("#later").addEventListener("click", step(-1));
    selectRound(select.value);
  }

  for (const plot of all(".plot[data-tips]")) {
    const tips = JSON.parse(plot.dataset.tips);
    const rounds = JSON.parse(plot.dataset.rounds);
    const drawings = [...plot.querySelectorAll("svg")].map((svg) => (
      { svg, points: JSON.parse(svg.dataset.points), box: svg.viewBox.baseVal }));
    const cursor = Object.assign(document.createElement("div"), { className: "cursor", hidden: true });
    const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    plot.append(cursor, tip);
    let current = -1;
    const shown = () => drawings.find(({ svg }) => svg.getBoundingClientRect().width > 0);
    const show = (index, announce) => {
      current = index;
      cursor.hidden = tip.hidden = index < 0;
      if (index < 0) return;
      const { points, box } = shown();
      const x = points[index][0] / box.width;
      cursor.style.left = `${100 * x}%`;
      cursor.style.setProperty("--at", `${(100 * points[index][1]) / box.height}%`);
      tip.textContent = tips[index];
      const free = plot.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(free, x * plot.clientWidth - tip.offsetWidth / 2))}px`;
      if (announce) announcement.textContent = tips[index];
    };
    const openRound = () => {
      if (current < 0 || !select) return;
      selectRound(rounds[current]);
      $("#one-round").scrollIntoView();
      select.focus({ preventScroll: true });
    };
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    const help = select ? "read the rounds, Enter to show one in detail" : "read the points";
    plot.setAttribute("aria-label", `${plot.dataset.title}: use the arrow keys to ${help}`);
    const showNearest = (event) => {
      const { svg, points, box } = shown();
      const frame = svg.getBoundingClientRect();
      const x = ((event.clientX - frame.left) / frame.width) * box.width;
      let nearest = 0;
      points.forEach((point, index) => {
        if (Math.abs(point[0] - x) < Math.abs(points[nearest][0] - x)) nearest = index;
      });
      show(nearest, false);
    };
    plot.addEventListener("pointermove", showNearest);
    plot.addEventListener("pointerdown", showNearest);
    // A tap cannot hover, so it only shows the tip, which stays until the next tap elsewhere. With a
    // mouse, the tip is already visible and a click opens the round.
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(-1); });
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("click", (event) => { if (event.pointerType !== "touch") openRound(); });
    plot.addEventListener("keydown", (event) => {
      const last = tips.length - 1;
      const to = {
        ArrowRight: Math.min(current + 1, last), ArrowLeft: current < 0 ? last : Math.max(current - 1, 0),
        Home: 0, End: last, Escape: -1,
      }[event.key];
      if (to !== undefined) { show(to, true); event.preventDefault(); }
      if (event.key === "Enter") openRound();
    });
  }
})();
