// The calculator of the page "How many bits?".
(() => {
  const measured = JSON.parse(document.querySelector("#measured").textContent);
  const form = document.querySelector("#calculator");
  const { rows, columns, target, data } = form.elements;
  for (const name of Object.keys(measured)) data.add(new Option(name));

  const size = (bytes) => {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let unit = 0;
    for (; bytes >= 999.5 && unit < units.length - 1; unit++) bytes /= 1000;
    return `${Number(bytes.toPrecision(3))} ${units[unit]}`;
  };
  const percent = (share) => `${(100 * share).toFixed(1)}%`;

  const answer = () => {
    const { n, codes, slopes } = measured[data.value];
    const among = (recall, slope) => {
      const angle = Math.acos(Math.sqrt(recall));
      const added = slope * Math.log(Math.max(1, rows.value / n));
      return Math.cos(Math.min(Math.PI / 2, angle + added)) ** 2;
    };
    const alone = (code) => among(code.alone, slopes[0]);
    const ranked = (code) => among(code.ranked, slopes[1]);
    const enough = codes.find((code) => 100 * ranked(code) >= target.value);
    const code = enough ?? codes[codes.length - 1];
    const memory = rows.value * code.search_bytes;
    const codebook = 256 * code.code_bytes * columns.value; // of whole numbers of a byte
    const lines = [
      `Codes of ${code.code_bytes} bytes: ${code.search_bytes} bytes a vector in the index.`,
      `${size(memory)}, and about ${size(codebook)} for the codebook, in place of ` +
        `${size(4 * rows.value * columns.value)} of float32.`,
      `Expect ${percent(ranked(code))} of the ten nearest among 100 candidates, and ` +
        `${percent(alone(code))} among the first ten codes, without re-ranking.`,
      `Measured on ${n.toLocaleString("en")} vectors` +
        (rows.value > n ? ", and extrapolated to your number of vectors." : "."),
    ];
    if (!enough) lines.unshift("No length that was measured reaches the target: re-rank more candidates. The longest:");
    form.querySelector("output").innerText = lines.join("\n");
  };
  form.addEventListener("input", answer);
  answer();
})();
