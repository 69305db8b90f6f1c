// Dark or light: as in the system's setting, unless the user chose.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "bulkhead.theme";

function stored(): Theme {
  try {
    const word = localStorage.getItem(KEY);
    return word === "light" || word === "dark" ? word : "system";
  } catch {
    // Storage can be forbidden; the choice then lasts as long as the page.
    return "system";
  }
}

const system = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = signal<Theme>(stored());
export const isDark = signal(system.matches);

effect(() => {
  const chosen = theme.value;
  isDark.value = chosen === "system" ? system.matches : chosen === "dark";
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // As above.
  }
});

effect(() => {
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
});

system.addEventListener("change", () => {
  if (theme.value === "system") isDark.value = system.matches;
});
