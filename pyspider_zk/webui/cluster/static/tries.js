import { bind, read, write } from "./address.js";
import { ask } from "./api.js";
import { byId } from "./dom.js";
import { live } from "./live.js";
import { triesTable } from "./tries-table.js";

const LIMIT = 100;
const DEFAULTS = { project: "" };

const state = read(DEFAULTS);
const tries = triesTable(byId("tries"), true);

const page = live(() => ask("/tries", { query: { ...state, limit: LIMIT } }), ({ items, missing }) => {
  tries.show(items);
  byId("empty").hidden = items.length > 0 || missing.length > 0;
});

bind(byId("filters"), state, () => {
  write(state, DEFAULTS);
  page.refresh();
});
