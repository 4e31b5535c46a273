// The theme, set before anything is drawn: the chosen one, or else the system's.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage may be forbidden
    }
  };
  const show = () => {
    root.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  };
  show();
  system.addEventListener("change", show);
  addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      try {
        localStorage.setItem("theme", root.dataset.theme === "dark" ? "light" : "dark");
      } catch {
        return;
      }
      show();
    });
  });
})();
