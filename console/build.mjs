// Builds the console into target/console: one script and one style sheet, named by their contents so that browsers may
// cache them for ever, and the page that loads them. Existing files stay untouched, so that the binary is not
// recompiled without need.

import { build } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const output = path.resolve(process.argv[2] ?? path.join(here, "..", "target", "console"));

/** All files of the console by their path in it. */
async function bundle() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: { console: "src/main.tsx" },
    outdir: path.join(output, "assets"),
    entryNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    write: false,
    target: ["chrome109", "firefox115", "safari16"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "eof",
    logLevel: "warning",
  });
  const files = new Map(result.outputFiles.map((file) => [path.relative(output, file.path), Buffer.from(file.contents)]));
  const named = (ending) => [...files.keys()].find((name) => name.endsWith(ending));
  const page = await readFile(path.join(here, "src", "index.html"), "utf8");
  files.set("index.html", Buffer.from(page.replace("@SCRIPT@", named(".js")).replace("@STYLE@", named(".css"))));
  files.set("icon.svg", await readFile(path.join(here, "src", "icon.svg")));
  return files;
}

async function isThere(name, contents) {
  try {
    return contents.equals(await readFile(path.join(output, name)));
  } catch {
    return false;
  }
}

const files = await bundle();
await mkdir(path.join(output, "assets"), { recursive: true });
for (const [name, contents] of files) {
  if (!(await isThere(name, contents))) await writeFile(path.join(output, name), contents);
}
for (const name of await readdir(path.join(output, "assets"))) {
  if (!files.has(path.join("assets", name))) await rm(path.join(output, "assets", name));
}
