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
    const { n, codes } = measured[data.value];
    const enough = codes.find((code) => 100 * code.ranked >= target.value);
    const code = enough ?? codes[codes.length - 1];
    const memory = rows.value * code.search_bytes;
    const codebook = 256 * code.code_bytes * columns.value; // of whole numbers of a byte
    const lines = [
      `Codes of ${code.code_bytes} bytes: ${code.search_bytes} bytes a vector in the index.`,
      `${size(memory)}, and about ${size(codebook)} for the codebook, in place of ` +
        `${size(4 * rows.value * columns.value)} of float32.`,
      `Expect ${percent(code.ranked)} of the ten nearest among 100 candidates, and ` +
        `${percent(code.alone)} among the first ten codes, without re-ranking.`,
      `Measured on ${n.toLocaleString("en")} vectors` +
        (rows.value > n ? "; among more, expect less, and re-rank more candidates." : "."),
    ];
    if (!enough) lines.unshift("No length that was measured reaches the target; the longest:");
    form.querySelector("output").innerText = lines.join("\n");
  };
  form.addEventListener("input", answer);
  answer();
})();
