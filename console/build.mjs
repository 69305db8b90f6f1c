// Builds the console into target/console: one script, one style sheet, named by their contents
// so that browsers may keep them for ever, and the page that loads them.

import { build } from "esbuild";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? path.join(here, "..", "target", "console");

await rm(output, { recursive: true, force: true });
await mkdir(output, { recursive: true });

const result = await build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.tsx" },
  outdir: path.join(output, "assets"),
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  sourcemap: false,
  metafile: true,
  target: ["chrome109", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  logLevel: "warning",
});

const names = Object.keys(result.metafile.outputs).map((name) => path.basename(name));
const named = (ending) => {
  const found = names.find((name) => name.endsWith(ending));
  if (!found) throw new Error(`esbuild made no ${ending} file`);
  return `assets/${found}`;
};

const page = await readFile(path.join(here, "src", "index.html"), "utf8");
await writeFile(
  path.join(output, "index.html"),
  page.replace("@SCRIPT@", named(".js")).replace("@STYLE@", named(".css")),
);
await cp(path.join(here, "src", "icon.svg"), path.join(output, "icon.svg"));
