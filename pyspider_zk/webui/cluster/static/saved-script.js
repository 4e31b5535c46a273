// The script in the editor and the saved one: loading, saving, and what somebody else has saved meanwhile.

import { projectPage } from "./address.js";
import { ask, isUnclear } from "./api.js";
import { byId, h, say } from "./dom.js";
import { when } from "./format.js";
import { askPyspider } from "./pyspider.js";

export class SavedScript {
  /**
   * start: URL of a new script; readOnly: whether its user may only look.
   * tell(...nodes) shows a notice in place of the last one; saved(error) is called with why it cannot run, or null.
   */
  constructor({ name, start, readOnly }, editor, tell, saved) {
    this.name = name;
    this.start = start;
    this.readOnly = readOnly;
    this.path = `/projects/${encodeURIComponent(name)}`;
    this.editor = editor;
    this.tell = tell;
    this.saved = saved;
    this.md5 = null; // of what was loaded or saved last; "": there was no project; null: nothing was loaded yet
    this.generation = editor.changeGeneration(true);
    this.isSaving = false;
    editor.on("change", () => this.update());
    addEventListener("beforeunload", (event) => {
      if (!this.isClean) event.preventDefault();
    });
    this.update();
  }

  get isClean() {
    return this.editor.isClean(this.generation);
  }

  get isLoaded() {
    return this.md5 !== null;
  }

  /** Return what is saved and its MD5; a sample and "" if there is no such project. */
  async stored() {
    const there = await askPyspider(`/debug/${encodeURIComponent(this.name)}/get`); // the API's 404 would be an error in the console
    if (there) return ask(`${this.path}/script`);
    return { md5: "", ...await ask("/new-script", { query: { project: this.name, start: this.start } }) };
  }

  /** Put what is saved in the editor, in which nothing is typed meanwhile. What was there is one undo away. */
  async load() {
    this.editor.setOption("readOnly", true);
    try {
      const { script, md5 } = await this.stored();
      this.editor.setValue(script);
      if (!this.isLoaded) this.editor.clearHistory();
      this.is(md5, this.editor.changeGeneration(true));
    } finally {
      this.editor.setOption("readOnly", this.readOnly || !this.isLoaded);
    }
  }

  is(md5, generation) {
    this.md5 = md5;
    this.generation = generation;
    this.update();
  }

  update() {
    const word = !this.isLoaded ? "" : !this.isClean ? "unsaved" : this.md5 ? "saved" : "new";
    byId("save").disabled = byId("run").disabled = !this.isLoaded;
    say(byId("state"), word);
    byId("state").className = `badge ${{ unsaved: "warn", saved: "good" }[word] ?? ""}`;
  }

  async save() {
    if (this.isSaving || !this.isLoaded) return;
    this.isSaving = true;
    const generation = this.editor.changeGeneration(true);
    try {
      const { md5, status, error } = await ask(`${this.path}/script`, { method: "PUT", body: { script: this.editor.getValue(), if: this.md5 } });
      this.is(md5, generation);
      const stands = status === "CHECKING" ? ["It is saved, and CHECKING: it crawls nothing until it is RUNNING again. ", h("a", { href: projectPage(this.name) }, "Set its status")] : [];
      this.tell(...(error ? [`It is saved, but cannot run: ${error}`] : stands));
      this.saved(error);
    } catch (error) {
      await this.refused(error);
    }
    this.isSaving = false;
  }

  async refused(error) {
    const { status, message } = error;
    if (isUnclear(error)) return this.tell(`It is not known whether it was saved: ${message}. Save it again.`);
    if (status !== 409) return this.tell(`Not saved: ${message}`);
    const choice = (text, press) => h("button", { type: "button", onclick: press }, text);
    const there = await this.stored().catch(() => null); // null: it cannot be had now
    if (there?.md5 === "") return this.tell("Not saved: the project is gone.", choice("Create it again", () => this.overwrite()));
    const theirs = await this.theirs().catch(() => ""); // it may be gone
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
