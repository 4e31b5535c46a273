// The tasks that were run, to go back and forward among.

export class Steps {
  /** shown(task) is called when another one is in the editor. */
  constructor(editor, back, forward, shown) {
    this.editor = editor;
    this.back = back;
    this.forward = forward;
    this.shown = shown;
    this.tasks = [];
    this.at = -1;
    back.addEventListener("click", () => this.show(this.isChanged ? this.at : this.at - 1));
    forward.addEventListener("click", () => this.show(this.at + 1));
    editor.on("change", () => this.update());
  }

  get isChanged() {
    return this.editor.getValue() !== this.tasks[this.at];
  }

  /** Put a task in the editor, after the present one. */
  add(task) {
    this.tasks.splice(this.at + 1, Infinity, task);
    this.show(this.at + 1);
  }

  /** Keep what is in the editor. */
  keep() {
    if (this.isChanged) this.add(this.editor.getValue());
  }

  show(at) {
    this.at = at;
    if (this.isChanged) this.editor.setValue(this.tasks[at]);
    this.update();
    this.shown(this.tasks[at]);
  }

  update() {
    this.back.disabled = this.at === 0 && !this.isChanged;
    this.forward.disabled = this.at + 1 >= this.tasks.length;
  }
}
