// A module hook: of what pi's AgentSession imports, only what its decisions use is loaded.
//
// Some dependencies of 1.5.2 are not published. Whatever is not loaded stands in as a class whose use is an error, so
// that nothing is decided by a stand-in; a session has no virtual model.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const IMPORTER = /\/core\/agent-session\.js$/;
const LOADED = [/\/compaction\/index\.js$/, /\/session-manager\.js$/, /\/messages\.js$/, /^@[a-z-]+\/pi-ai/];

export async function resolve(specifier, context, next) {
  if (!IMPORTER.test(context.parentURL ?? "")) return next(specifier, context);
  const real = LOADED.some((pattern) => pattern.test(specifier)) ? (await next(specifier, context)).url : "";
  const query = [specifier, context.parentURL, real].map(encodeURIComponent).join("&");
  return { url: `partial:${query}`, shortCircuit: true };
}

export async function load(url, context, next) {
  if (!url.startsWith("partial:")) return next(url, context);
  const [specifier, parent, real] = url.slice("partial:".length).split("&").map(decodeURIComponent);
  const exported = real ? Object.keys(await import(real)) : [];
  const absent = imported(readFileSync(fileURLToPath(parent), "utf8"), specifier).filter((name) => !exported.includes(name));
  const lines = absent.map((name) =>
    name === "isVirtualModel" ? `export const ${name} = () => false;` : `export const ${name} = absent("${name}");`,
  );
  const source = [
    real && `export * from ${JSON.stringify(real)};`,
    "const fail = (name) => { throw new Error(`${name} is not loaded`); };",
    "const absent = (name) => new Proxy(class {}, { apply: () => fail(name), construct: () => fail(name) });",
    ...lines,
  ];
  return { format: "module", source: source.filter(Boolean).join("\n"), shortCircuit: true };
}

/** The names that a module imports from another. */
function imported(text, specifier) {
  const statements = [...text.matchAll(/import\s*\{([^}]*)\}\s*from\s*"([^"]+)"/g)];
  const lists = statements.filter(([, , from]) => from === specifier).map(([, names]) => names.split(","));
  return lists.flat().map((name) => name.trim().split(/\s+as\s+/)[0]).filter(Boolean);
}
