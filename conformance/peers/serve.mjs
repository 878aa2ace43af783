// The line protocol of the conformance peers: one JSON object per line in, one per line out.
// A peer calls `serve({ name: (args) => value or promise })`; what a function throws becomes the question's error.

/** The folder in which the published packages were installed. */
export const folder = process.argv[2];

const output = process.stdout.write.bind(process.stdout);
// Packages may print; standard output belongs to the protocol.
process.stdout.write = process.stderr.write.bind(process.stderr);
console.log = console.info = console.debug = console.error;

/** Lines end with \n alone: JSON texts may hold U+2028, at which `readline` would break them. */
async function* lines(input) {
  input.setEncoding("utf8");
  let pieces = [];
  for await (const chunk of input) {
    const [first, ...rest] = chunk.split("\n");
    pieces.push(first);
    for (const next of rest) {
      yield pieces.join("");
      pieces = [next];
    }
  }
}

export async function serve(functions) {
  for await (const line of lines(process.stdin)) {
    const { id, fn, args } = JSON.parse(line);
    try {
      if (!Object.hasOwn(functions, fn)) throw new Error(`no function ${fn}`);
      const value = await functions[fn](args);
      output(JSON.stringify({ id, ok: value === undefined ? null : value }) + "\n");
    } catch (error) {
      output(JSON.stringify({ id, error: String(error?.message ?? error) }) + "\n");
    }
  }
}
