// The script in the editor and the saved one: loading, saving, and what somebody else has saved meanwhile.

import { projectPage } from "./address.js";
import { ask } from "./api.js";
import { byId, h, say } from "./dom.js";
import { when } from "./format.js";
import { askPyspider } from "./pyspider.js";

export class SavedScript {
  /** tell(...nodes) shows a notice in place of the last one; saved(error) is called with why it cannot run, or null. */
  constructor(name, editor, tell, saved) {
    this.name = name;
    this.path = `/projects/${encodeURIComponent(name)}`;
    this.editor = editor;
    this.tell = tell;
    this.saved = saved;
    this.md5 = ""; // of what was loaded or saved last; "": there was no project
    this.generation = editor.changeGeneration(true);
    this.isSaving = false;
    editor.on("change", () => this.update());
    addEventListener("beforeunload", (event) => {
      if (!this.isClean) event.preventDefault();
    });
  }

  get isClean() {
    return this.editor.isClean(this.generation);
  }

  /** Return what is saved and its MD5; a sample and "" if there is no such project. */
  async stored(start) {
    const there = await askPyspider(`/debug/${encodeURIComponent(this.name)}/get`); // the API's 404 would be an error in the console
    if (there) return ask(`${this.path}/script`);
    return { md5: "", ...await ask("/new-script", { query: { project: this.name, start } }) };
  }

  /** Put what is saved in the editor. What was there is one undo away. */
  async load(start) {
    const { script, md5 } = await this.stored(start);
    this.editor.setValue(script);
    this.is(md5, this.editor.changeGeneration(true));
  }

  is(md5, generation) {
    this.md5 = md5;
    this.generation = generation;
    this.update();
  }

  update() {
    const word = !this.isClean ? "unsaved" : this.md5 ? "saved" : "new";
    say(byId("state"), word);
    byId("state").className = `badge ${{ unsaved: "warn", saved: "good" }[word] ?? ""}`;
  }

  async save() {
    if (this.isSaving) return;
    this.isSaving = true;
    const generation = this.editor.changeGeneration(true);
    try {
      const { md5, error } = await ask(`${this.path}/script`, { method: "PUT", body: { script: this.editor.getValue(), if: this.md5 } });
      this.is(md5, generation);
      this.tell(...(error ? [`It is saved, but cannot run: ${error}`] : []));
      this.saved(error);
    } catch (error) {
      await this.refused(error);
    }
    this.isSaving = false;
  }

  async refused({ status, message }) {
    if (status !== 409) return this.tell(`Not saved: ${message}`);
    const theirs = await this.theirs().catch(() => ""); // it may be gone
    const choice = (text, press) => h("button", { type: "button", onclick: press }, text);
    return this.tell(
      `Not saved: ${message}.${theirs}`,
      h("a", { href: `${projectPage(this.name)}#versions`, target: "_blank" }, "Show the versions"),
      choice("Save mine all the same", () => this.overwrite()),
      choice("Load theirs", () => this.takeTheirs()),
    );
  }

  /** Tell who has saved what is saved, and when, if the versions have it. */
  async theirs() {
    const { items: [{ saved_at: at, who }] } = await ask(`${this.path}/versions`);
    const [now, newest] = await Promise.all(["script", `versions/${at.toFixed(3)}`].map((each) => ask(`${this.path}/${each}`)));
    return now.script === newest.script ? ` That was saved ${when(at)}${who && `, by ${who}`}.` : "";
  }

  async overwrite() {
    await this.tried(async () => {
      ({ md5: this.md5 } = await this.stored());
      await this.save();
    });
  }

  async takeTheirs() {
    await this.tried(async () => {
      await this.load();
      this.tell("Theirs is loaded; undo brings yours back.");
    });
  }

  /** Do something of which an error is told. */
  async tried(something) {
    await something().catch(({ message }) => this.tell(message));
  }
}
