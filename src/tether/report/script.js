"use strict";
// The page is whole without this; here are a switch for the theme, a choice of the round, and
// points that can be read with a pointer or with the arrow keys.
(() => {
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const spoken = $("#spoken");

  const theme = $("#theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = (value) => {
    try {
      if (value) localStorage.setItem("tether-theme", value);
      return localStorage.getItem("tether-theme");
    } catch { return null; }
  };
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  if (kept()) document.documentElement.dataset.theme = kept();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    kept(document.documentElement.dataset.theme);
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  theme.hidden = false;
  showTheme();

  const select = $("#round");
  const choose = (round) => {
    select.value = round;
    for (const each of all("#closer [data-round]")) {
      const chosen = each.dataset.round === String(round);
      if (each instanceof SVGElement) each.classList.toggle("chosen", chosen);
      else each.hidden = !chosen;
    }
    $("#later").disabled = select.selectedIndex === 0;
    $("#earlier").disabled = select.selectedIndex === select.options.length - 1;
  };
  if (select) {
    $(".chooser").hidden = false;
    select.addEventListener("change", () => choose(select.value));
    const step = (by) => () => {
      choose(select.options[select.selectedIndex + by].value);
      spoken.textContent = select.selectedOptions[0].textContent;
    };
    $("#earlier").addEventListener("click", step(1));
    $("#later").addEventListener("click", step(-1));
    choose(select.value);
  }

  for (const plot of all(".plot[data-tips]")) {
    const tips = JSON.parse(plot.dataset.tips);
    const rounds = JSON.parse(plot.dataset.rounds);
    const drawings = [...plot.querySelectorAll("svg")].map((svg) => (
      { svg, points: JSON.parse(svg.dataset.points), box: svg.viewBox.baseVal }));
    const cursor = Object.assign(document.createElement("div"), { className: "cursor", hidden: true });
    const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    plot.append(cursor, tip);
    let at = -1;
    const shown = () => drawings.find(({ svg }) => svg.getBoundingClientRect().width > 0);
    const show = (index, aloud) => {
      at = index;
      cursor.hidden = tip.hidden = index < 0;
      if (index < 0) return;
      const { points, box } = shown();
      const x = points[index][0] / box.width;
      cursor.style.left = `${100 * x}%`;
      cursor.style.setProperty("--at", `${(100 * points[index][1]) / box.height}%`);
      tip.textContent = tips[index];
      const free = plot.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(free, x * plot.clientWidth - tip.offsetWidth / 2))}px`;
      if (aloud) spoken.textContent = tips[index];
    };
    const look = () => {
      if (at < 0 || !select) return;
      choose(rounds[at]);
      $("#closer").scrollIntoView();
      select.focus({ preventScroll: true });
    };
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${plot.dataset.title}: the arrow keys read the rounds, Enter looks into one`);
    const point = (event) => {
      const { svg, points, box } = shown();
      const frame = svg.getBoundingClientRect();
      const x = ((event.clientX - frame.left) / frame.width) * box.width;
      let nearest = 0;
      points.forEach((point, index) => {
        if (Math.abs(point[0] - x) < Math.abs(points[nearest][0] - x)) nearest = index;
      });
      show(nearest, false);
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    // A finger that taps wants to read the point, and cannot hover: the tip stays until it is
    // elsewhere. A mouse that clicks has read it already.
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(-1); });
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("click", (event) => { if (event.pointerType !== "touch") look(); });
    plot.addEventListener("keydown", (event) => {
      const last = tips.length - 1;
      const to = {
        ArrowRight: Math.min(at + 1, last), ArrowLeft: at < 0 ? last : Math.max(at - 1, 0),
        Home: 0, End: last, Escape: -1,
      }[event.key];
      if (to !== undefined) { show(to, true); event.preventDefault(); }
      if (event.key === "Enter") look();
    });
  }
})();
