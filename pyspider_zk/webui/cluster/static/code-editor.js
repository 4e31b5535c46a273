// Editors of code: CodeMirror, with a way out by the keyboard and a mark at a line with an error.
/* global CodeMirror */

import { h } from "./dom.js";

const LEAVING = { Tab: false, "Shift-Tab": false }; // left to the browser
const GUTTER = "faults";
const MOST_COLOURED = 200_000; // characters

/** Make an editor in a box. After Escape, Tab leaves it instead of indenting. */
function codeEditor(box, label, options) {
  const stay = () => editor.removeKeyMap(LEAVING);
  const editor = CodeMirror(box, {
    lineWrapping: true,
    styleActiveLine: true,
    screenReaderLabel: label,
    ...options,
    extraKeys: {
      Tab: () => editor.execCommand(editor.somethingSelected() ? "indentMore" : "insertSoftTab"),
      "Shift-Tab": "indentLess",
      Esc() {
        stay();
        editor.addKeyMap(LEAVING);
        return CodeMirror.Pass;
      },
    },
  });
  editor.on("blur", stay);
  editor.on("change", stay);
  editor.getInputField().setAttribute("aria-describedby", "keys");
  return editor;
}

export const scriptEditor = (box, readOnly) => codeEditor(box, "Script", { mode: "python", indentUnit: 4, lineNumbers: true, gutters: ["CodeMirror-linenumbers", GUTTER], readOnly });

export const taskEditor = (box, readOnly) => codeEditor(box, "Task", { mode: "application/json", indentUnit: 2, lint: faultsOf, viewportMargin: Infinity, readOnly });

/** Say where JSON is wrong, as CodeMirror wants it. Browsers tell the place in several ways. */
function faultsOf(text, _, editor) {
  try {
    JSON.parse(text);
    return [];
  } catch ({ message }) {
    const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? [];
    const [, position = text.length] = /position (\d+)/.exec(message) ?? [];
    const from = editor.clipPos(line ? CodeMirror.Pos(line - 1, column - 1) : editor.posFromIndex(Number(position))); // it may be of a text that is quoted
    const start = from.ch && from.ch >= editor.getLine(from.line).length ? CodeMirror.Pos(from.line, from.ch - 1) : from;
    return [{ message, severity: "error", from: start, to: CodeMirror.Pos(start.line, start.ch + 1) }];
  }
}

/** Mark a line, counted from 1, in place of the one that was; null: none. */
export function markFault(editor, number, message) {
  editor.clearGutter(GUTTER);
  editor.eachLine((line) => editor.removeLineClass(line, "background", "fault-line"));
  if (!number || number > editor.lineCount()) return;
  editor.addLineClass(number - 1, "background", "fault-line");
  editor.setGutterMarker(number - 1, GUTTER, h("span", { class: "fault", role: "img", "aria-label": message, title: message }, "●"));
}

/** Put the cursor at a line, counted from 1. */
export function goToLine(editor, number) {
  editor.setCursor(number - 1, 0);
  editor.scrollIntoView(null, 80);
  editor.focus();
}

/** Show code in the colours of a media type, unless that would take long. */
export function showCode(pre, text, mode) {
  if (text.length > MOST_COLOURED) pre.textContent = text;
  else CodeMirror.runMode(text, mode.includes("/") ? mode : "text/plain", pre); // a mode is also found by what is no type, such as "constructor"
}

export const pretty = (value) => JSON.stringify(value, null, 2);
