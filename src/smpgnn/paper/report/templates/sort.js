// Clicking a column head sorts the table by that column. Cells without a value stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.querySelectorAll("th")]
    .filter((head) => head.querySelector("button"));
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.value ?? "";
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, two) => {
        const a = value(one), b = value(two);
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = isNaN(a) || isNaN(b) ? a.localeCompare(b) : Number(a) - Number(b);
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    });
  });
}
