/* Makes tables sortable: those of class "sortable", or within an element of that class.

A click on a header, or Enter or the space bar while it has the focus, sorts the rows by
that column; once more, the other way round. aria-sort tells which column and direction.
Cells that begin with a number ("1,234", "79%", "0.41 s", "2.1 GB") sort by it and come
before texts; empty cells and dashes come last either way. */
(() => {
  "use strict";

  const NUMBER =
    /^[~<>≤≥±×($€]*\s*([+\-−]?)\s*(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?\s*([a-zµμ]*)/i;
  const EMPTY = /^(|[-–—]+|n\/?a|nan|none)$/i;
  const SCALES = {
    k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12,
    kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
    KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    ns: 1e-9, us: 1e-6, µs: 1e-6, μs: 1e-6, ms: 1e-3, min: 60, h: 3600,
  };
  const STYLE = `
    .sortable th[aria-sort] { cursor: pointer; }
    .sortable th[aria-sort]:focus-visible { outline: 2px solid; outline-offset: -2px; }
    .sortable th[aria-sort=ascending]::after { content: " ▲"; font-size: .7em; }
    .sortable th[aria-sort=descending]::after { content: " ▼"; font-size: .7em; }
    @media print { .sortable th[aria-sort]::after { content: none; } }`;

  function readCell(row, column) {
    const text = (row.cells[column]?.textContent ?? "").trim();
    if (EMPTY.test(text)) return { row, text, rank: 2 };
    const found = NUMBER.exec(text);
    if (!found) return { row, text, rank: 1 };
    const [, sign, digits, exponent = "", unit] = found;
    const size = Number(digits.replaceAll(",", "") + exponent) * (SCALES[unit] ?? 1);
    return { row, text, rank: 0, number: sign === "" || sign === "+" ? size : -size };
  }

  function compare(a, b, direction) {
    if (a.rank !== b.rank) return a.rank - b.rank;
    if (a.rank === 2) return 0;
    if (a.rank === 0 && a.number !== b.number) return direction * (a.number - b.number);
    return direction * a.text.localeCompare(b.text, undefined, { numeric: true });
  }

  function sort(table, headers, header, column) {
    const ascending = header.ariaSort !== "ascending";
    for (const other of headers) other.ariaSort = "none";
    header.ariaSort = ascending ? "ascending" : "descending";
    for (const body of table.tBodies) {
      const cells = Array.from(body.rows, (row) => readCell(row, column));
      cells.sort((a, b) => compare(a, b, ascending ? 1 : -1));
      body.append(...cells.map((cell) => cell.row));
    }
  }

  function makeSortable(table) {
    const headers = Array.from(table.tHead?.rows[table.tHead.rows.length - 1]?.cells ?? []);
    const spans = Array.from(table.querySelectorAll("tbody > tr > *"));
    // Rows that share a cell cannot be moved alone.
    if (spans.some((cell) => cell.rowSpan > 1 || cell.colSpan > 1)) return;
    if (headers.some((header) => header.colSpan > 1)) return;
    headers.forEach((header, column) => {
      header.ariaSort = "none";
      header.tabIndex = 0;
      header.addEventListener("click", () => sort(table, headers, header, column));
      header.addEventListener("keydown", (event) => {
        if (event.target !== header || (event.key !== "Enter" && event.key !== " ")) return;
        event.preventDefault();
        sort(table, headers, header, column);
      });
    });
  }

  function start() {
    const style = document.createElement("style");
    style.textContent = STYLE;
    document.head.append(style);
    document.querySelectorAll("table.sortable, .sortable table").forEach(makeSortable);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
