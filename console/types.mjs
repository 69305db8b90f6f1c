// Writes src/api/types.ts, the types of the API, from the OpenAPI document that the `bulkhead` binary prints.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import { program } from "./tests/world/head.mjs";

export const file = path.join(path.dirname(fileURLToPath(import.meta.url)), "src", "api", "types.ts");
const HEADER = "// The types of the API. Made by `npm run types` from `bulkhead head openapi`: not to be edited.\n\n";
const OPTIONS = {
  // The same type may be returned, with all of its fields, or sent, without those that have a default.
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  rootTypesKeepCasing: true,
};

/** The desired contents of the file. */
export async function types() {
  const printed = execFileSync(program, ["head", "openapi"], { maxBuffer: 64 << 20, encoding: "utf8" });
  const { openapi, info, components: { schemas } } = JSON.parse(printed);
  return HEADER + astToString(await openapiTS({ openapi, info, components: { schemas } }, OPTIONS));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(file, await types());
