/* Shows the numbers of a chart's points under the pointer, or by the arrow keys.

Without it the browser shows their titles. */
(() => {
  "use strict";

  const REACH = 28; // pixels from a point to the pointer
  const COVERED = 4; // pixels to a point that cannot be told apart
  const MOST = 3; // points that are told of at once

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.querySelector(".skhash-audit").append(tip);

  function middle(mark) {
    const { left, right, top, bottom } = mark.getBoundingClientRect();
    return { x: (left + right) / 2, y: (top + bottom) / 2 };
  }

  function hide(chart) {
    tip.hidden = true;
    for (const mark of chart.querySelectorAll(".told")) mark.classList.remove("told");
  }

  function linesOf(mark) {
    return mark.dataset.text.split("\n").map((text, number) => {
      const line = document.createElement(number ? "span" : "b");
      line.textContent = text;
      return line;
    });
  }

  /* Tell of a mark, and of those that it covers. */
  function tell(chart, mark, marks) {
    const { x, y } = middle(mark);
    const covered = mark.classList.contains("bin") ? [] : marks.filter((other) => {
      const place = middle(other);
      return other !== mark && Math.hypot(place.x - x, place.y - y) < COVERED;
    });
    hide(chart);
    mark.classList.add("told");
    const shown = linesOf(mark);
    for (const other of covered.slice(0, MOST - 1)) {
      shown.push(...linesOf(other).slice(0, 2));
    }
    if (covered.length >= MOST) {
      const more = document.createElement("b");
      more.textContent = `and ${covered.length - MOST + 1} more here`;
      shown.push(more);
    }
    tip.replaceChildren(...shown);
    tip.hidden = false;
    const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(x - tip.offsetWidth / 2, most)) + scrollX}px`;
    const above = y - tip.offsetHeight - 14;
    tip.style.top = `${(above > 0 ? above : y + 14) + scrollY}px`;
  }

  function nearest(marks, event) {
    const within = event.target.closest?.(".bin");
    if (within) return within;
    let best = null;
    let least = REACH;
    for (const mark of marks) {
      const { x, y } = middle(mark);
      const distance = Math.hypot(x - event.clientX, y - event.clientY);
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  }

  for (const chart of document.querySelectorAll(".skhash-audit .chart")) {
    const marks = Array.from(chart.querySelectorAll(".point, .bin"));
    for (const mark of marks) {
      const title = mark.querySelector("title");
      mark.dataset.text = title.textContent;
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("role", "img");
      title.remove();
    }
    const point = (event) => {
      const mark = nearest(marks, event);
      if (mark) tell(chart, mark, marks);
      else hide(chart);
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", () => hide(chart));
    chart.addEventListener("blur", () => hide(chart));
    chart.tabIndex = 0;
    const inOrder = () => marks.slice().sort((a, b) => middle(a).x - middle(b).x);
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return hide(chart);
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const ordered = inOrder();
      const now = ordered.findIndex((mark) => mark.classList.contains("told"));
      const next = now < 0 ? (step > 0 ? 0 : ordered.length - 1) : now + step;
      tell(chart, ordered[(next + ordered.length) % ordered.length], marks);
    });
  }
})();
