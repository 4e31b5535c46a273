// Filters, order and page number in the address bar, so that a view can be bookmarked or sent.

export const projectPage = (name) => `/cluster/project?name=${encodeURIComponent(name)}`;

export const editorPage = (project, more = {}) => `/cluster/editor?${new URLSearchParams({ project, ...more })}`;

export const resultsPage = (project) => `/cluster/results?${new URLSearchParams({ project })}`;

export const taskPage = (project, taskid) => `/cluster/task?${new URLSearchParams({ project, id: taskid })}`;

/** Return the state in the address; what is not there has its default. */
export function read(defaults) {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => {
      const text = given.get(name);
      if (text === null) return [name, value];
      return [name, typeof value === "number" ? whole(text, value) : text];
    }),
  );
}

function whole(text, fallback) {
  const number = Number(text);
  return Number.isSafeInteger(number) && number >= 0 ? number : fallback;
}

/** Write the state to the address, without the defaults. */
export function write(state, defaults) {
  const differing = Object.entries(state).filter(([name, value]) => value !== defaults[name]);
  const search = new URLSearchParams(differing).toString();
  history.replaceState(null, "", search ? `?${search}` : location.pathname);
  const login = document.getElementById("login"); // leads back here
  if (login) login.search = new URLSearchParams({ next: location.pathname + location.search });
}

/** Bind a form's fields to the state of the same names; changed() is called soon after typing. */
export function bind(form, state, changed) {
  let timer;
  const fields = [...form.elements].filter((field) => field.name in state);
  for (const field of fields) field.value = state[field.name];
  const take = () => {
    for (const field of fields) state[field.name] = field.value.trim();
    changed();
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(take, 250);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    take();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const field of fields) field.value = "";
    take();
  });
}
