// The types of the console must match those of the tested binary.

import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { file, types } from "../types.mjs";

test("the types are those of the OpenAPI document", async () => {
  const isCurrent = readFileSync(file, "utf8") === await types();
  assert.ok(isCurrent, "src/api/types.ts is out of date: run `npm run types` in console, then `npm run check`");
});
