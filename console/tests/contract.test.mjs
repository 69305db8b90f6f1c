// What the console believes the API says is compared with the OpenAPI document of the program:
// everything that the head may send has to fit the types of `src/api/types.ts`.

import { test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";
import { program } from "./world/head.mjs";

/** Names of the document, and of the console where they differ. */
const TYPES = {
  Overview: "Overview",
  PoolFound: "PoolSummary",
  PoolStatus: "PoolStatus",
  VolumeView: "VolumeView",
  SnapshotView: "SnapshotView",
  TargetView: "TargetView",
  DiscoveryView: "DiscoveryView",
  NbdView: "NbdView",
  ScheduleView: "ScheduleView",
  KeyView: "KeyView",
  RolledBack: "RolledBack",
  RescueView: "RescueView",
  ReplicationView: "ReplicationView",
  ReplacementView: "ReplacementView",
  Event: "PoolEvent",
  Operation: "Operation",
  Done: "Done",
  DiskView: "Disk",
  UserView: "User",
  TokenView: "Token",
  Entry: "AuditEntry",
};

const console_ = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

test("everything that the API may send fits the types of the console", async (t) => {
  const document = JSON.parse(execFileSync(program, ["head", "openapi"], { maxBuffer: 64 << 20, encoding: "utf8" }));
  const missing = Object.keys(TYPES).filter((name) => !(name in document.components.schemas));
  assert.deepEqual(missing, [], "the document has no such schemas");

  const folder = mkdtempSync(path.join(console_, "node_modules", ".contract-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(path.join(folder, "document.ts"), astToString(await openapiTS(document)));
  const lines = Object.entries(TYPES).map(([theirs, ours], index) =>
    `export const of${index} = (sent: components["schemas"]["${theirs}"]): Ours.${ours} => sent;`);
  const types = path.relative(folder, path.join(console_, "src", "api", "types"));
  const check = path.join(folder, "check.ts");
  writeFileSync(check, [
    'import type { components } from "./document";',
    `import type * as Ours from "${types}";`,
    ...lines,
  ].join("\n"));

  const options = { strict: true, noEmit: true, skipLibCheck: true, module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler, target: ts.ScriptTarget.ES2022, types: [] };
  const found = ts.getPreEmitDiagnostics(ts.createProgram([check], options));
  const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => folder, getNewLine: () => "\n" };
  assert.equal(ts.formatDiagnostics(found, host), "");
});
