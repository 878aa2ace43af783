// The pure modules of the console, as the page has them.
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

const folder = new URL('../../console/', import.meta.url);

export async function pure(path) {
  const { rolldown } = await import(pathToFileURL(createRequire(new URL('package.json', folder)).resolve('rolldown')));
  const bundle = await rolldown({ input: fileURLToPath(new URL(`src/${path}`, folder)) });
  const { output } = await bundle.generate({ format: 'esm' });
  return import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString('base64')}`);
}
