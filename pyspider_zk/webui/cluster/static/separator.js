// The bar between two columns, which mouse and arrow keys move.

const STEP = 5; // percent

/** moved() is called when the columns have another width. */
export function separator(bar, columns, moved) {
  const [least, most] = ["aria-valuemin", "aria-valuemax"].map((name) => Number(bar.getAttribute(name)));
  const move = (percent) => {
    const value = Math.round(Math.min(most, Math.max(least, percent)));
    bar.setAttribute("aria-valuenow", value);
    columns.style.setProperty("--left", `${value}%`);
    moved();
  };
  bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
  bar.addEventListener("pointermove", (event) => {
    if (!bar.hasPointerCapture(event.pointerId)) return;
    const { left, width } = columns.getBoundingClientRect();
    move(((event.clientX - left) / width) * 100);
  });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (step) move(Number(bar.getAttribute("aria-valuenow")) + step);
  });
}
