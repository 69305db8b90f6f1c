// A real Chromium, with helpers for journeys.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { PATIENCE_MS, USERS } from "./head.mjs";

const OPTIONS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 360, height: 740 } };

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Browser {
  #logins = new Map();

  static async start(url, users = USERS) {
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    return new Browser(await chromium.launch({ executablePath, args: OPTIONS }), url, users);
  }

  constructor(browser, url, users) {
    this.browser = browser;
    this.url = url;
    this.users = users;
    /** Hosts other than the head that received a request from a page. */
    this.strangers = new Set();
  }

  /** A page of a logged-in user, or without a login. */
  async page({ role = "admin", size = "desktop", colours = "light", path = "" } = {}) {
    const context = await this.browser.newContext({
      viewport: SIZES[size],
      colorScheme: colours,
      reducedMotion: "reduce",
      locale: "en-GB",
      // Certificates of test appliances are signed by themselves.
      ignoreHTTPSErrors: true,
      storageState: role ? await this.#login(role) : undefined,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.wrong = [];
    page.on("pageerror", (error) => page.wrong.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error" && /Content Security Policy/.test(message.text())) page.wrong.push(message.text());
    });
    page.on("request", (request) => {
      const host = new URL(request.url()).host;
      if (host && host !== new URL(this.url).host) this.strangers.add(host);
    });
    await page.goto(`${this.url}/#/${path}`);
    return page;
  }

  async #login(role) {
    if (!this.#logins.has(role)) {
      const context = await this.browser.newContext({ ignoreHTTPSErrors: true });
      const { user, password } = this.users[role];
      const answer = await context.request.post(`${this.url}/api/v1/login`, { data: { user, password } });
      assert.equal(answer.status(), 200, await answer.text());
      this.#logins.set(role, await context.storageState());
      await context.close();
    }
    return this.#logins.get(role);
  }

  /** Sessions of a head that was restarted are gone. */
  forgetLogins() {
    this.#logins.clear();
  }

  async stop() {
    await this.browser.close();
  }
}

/** Goes to a page of the console by its address. */
export async function visit(page, path) {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${path}`);
}

/** The dialog that is open. */
export const dialog = (page) => page.getByRole("dialog");

export const button = (place, name) => place.getByRole("button", { name, exact: true });

/** Presses Tab until an element of this name has the focus. */
export async function tabTo(page, name) {
  const PRESSES_MAX = 60;
  for (let press = 0; press < PRESSES_MAX; press += 1) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element?.id ? document.querySelector(`label[for="${element.id}"]`) : null;
      return (label ?? element)?.textContent?.trim();
    });
    if (found === name) return;
  }
  assert.fail(`the focus never came to ${name}`);
}

/** Sends a dialog and resolves when it is done. */
export async function send(page, name) {
  const open = dialog(page);
  await button(open, name).click();
  const refusal = open.getByRole("alert").filter({ hasText: /\S/ });
  await Promise.race([open.waitFor({ state: "detached" }), refusal.waitFor()]);
  assert.equal(await open.count(), 0, (await open.count()) > 0 ? await open.innerText() : "");
}

/** Fails with the violations that axe finds in the page, if any. */
export async function assertAccessible(page, what) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const found = await window.axe.run({ runOnly: tags });
    return found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
  });
  assert.deepEqual(violations, [], what);
}

/** The page has no overflow to the right, so that no sideways scrolling is needed. */
export async function assertFits(page, what) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(over <= 0, `${what} is ${over} pixels too wide`);
}
