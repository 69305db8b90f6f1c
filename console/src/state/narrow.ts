// Whether the window is as narrow as a phone: the limit of the style sheets.

import { signal } from "@preact/signals";

const phone = window.matchMedia("(max-width: 760px)");

export const isNarrow = signal(phone.matches);

phone.addEventListener("change", () => { isNarrow.value = phone.matches; });
